"""`experts`: which plans are carried out, from which seeds, and which questions they answer."""

from typing import Self

from pydantic import Field, model_validator

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.settings.names import Name, PlanName
from unequal.settings.numbers import Seed
from unequal.settings.plan import OneGroup, Plan, SeveralGroups
from unequal.settings.strict import Strict
from unequal.timesteps.groups import check_groups, least_limit, timestep_groups


class Experts(Strict):
    """The plans that are carried out, each from every training seed.

    What stands before the slash of a plan's name is the question that it helps to answer; those of `shared` help all.
    """

    questions: tuple[Name, ...] = Field(min_length=1, description="each with a report of its own")
    plans: tuple[PlanName, ...] = Field(min_length=1, description="names under `plans`, each an instance")
    seeds: tuple[Seed, ...] = Field(
        min_length=1, description="of pruning, fresh weights, batches and noise; not of the data, nor of the base"
    )

    @model_validator(mode="after")
    def nothing_is_made_twice(self) -> Self:
        """A plan and a seed name a folder."""
        for axis in ("questions", "plans", "seeds"):
            values = getattr(self, axis)
            if len(set(values)) < len(values):
                raise ValueError(f"{axis}: {list(values)} names one twice")
        return self


def check_plan(plan: Plan, schedule: NoiseSchedule, prediction: str | None) -> None:
    """Raise UserError where a plan cannot be carried out, but for what only the base's measured loss can tell.

    Args:
        plan: to be checked.
        schedule: whose timesteps are grouped.
        prediction: the base's; None: not known.
    """
    if prediction not in (None, plan.recipe.prediction) or plan.recipe.prediction == "mixed":
        raise UserError(f"recipe.prediction: '{plan.recipe.prediction}'; the base's is '{prediction}', of one head")
    if isinstance(plan.groups, SeveralGroups):
        chosen = plan.groups
        check_groups(schedule, chosen.count, chosen.min_ratio)
        if not chosen.needs_excess:
            timestep_groups(chosen.kind, schedule, chosen.count, chosen.min_ratio)


def smallest_model(groups: OneGroup | SeveralGroups, schedule: NoiseSchedule) -> float:
    """The lowest limit of a plan's models, as a share of the base's FLOPs."""
    if isinstance(groups, OneGroup):
        return groups.ratio
    return least_limit(groups.kind, schedule, groups.count, groups.min_ratio)
