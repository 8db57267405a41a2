"""`plans`: ways of training models for groups of timesteps, each under a name, and `experts`: which are carried out."""

from typing import Annotated, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.settings.names import Name, PlanName
from unequal.settings.numbers import Seed
from unequal.settings.pruning import Pruning
from unequal.settings.recipe import RangeRecipe
from unequal.settings.strict import Strict
from unequal.timesteps.groups import Grouping, check_groups, timestep_groups


class OneGroup(Strict):
    """All timesteps as one group."""

    kind: Literal["whole"]
    ratio: float = Field(gt=0, le=1, description="the model's largest FLOPs as a share of the base's")


class SeveralGroups(Strict):
    """Several groups, each with a limit of FLOPs, as in the section `groups`."""

    kind: Grouping
    count: PositiveInt = Field(description="N")
    min_ratio: float = Field(gt=0, le=1, description="k: the smallest model's FLOPs as a share of the base's")


class Plan(Strict):
    """How the models for groups of timesteps come about."""

    groups: Annotated[OneGroup | SeveralGroups, Field(discriminator="kind")]
    pruning: Pruning | None = Field(description="to each group's limit; null: all have the base's architecture")
    start: Literal["base", "scratch"] = Field(description="with the base's weights, or with fresh ones")
    recipe: RangeRecipe = Field(description="by which each group's model is trained, on its timesteps alone")
    base_share: float = Field(
        default=0.0, ge=0, description="from scratch: so much of the base's training FLOPs is spent too, in equal parts"
    )

    @model_validator(mode="after")
    def choices_fit(self) -> Self:
        """A group's model is one model, and only who starts from scratch has the base's compute to spend."""
        if self.recipe.snapshots:
            raise ValueError(f"recipe.snapshots: {list(self.recipe.snapshots)}; allowed: none")
        if self.base_share and self.start == "base":
            raise ValueError(f"base_share: {self.base_share} is for start 'scratch'; allowed: 0")
        return self


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
        if chosen.kind != "excess_loss":
            timestep_groups(chosen.kind, schedule, chosen.count, chosen.min_ratio)
