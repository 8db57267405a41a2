"""The whole of the study's params.yaml."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from studies.tdc.settings import Experts
from unequal.errors import UserError
from unequal.settings.names import PlanName
from unequal.settings.params.compared import Compared
from unequal.settings.params.profiled import Profiled
from unequal.settings.params.roles import FRESH, Role
from unequal.settings.plan import Plan
from unequal.settings.recipe import Recipe


class Params(Profiled, Compared):
    """All sections, and what holds of several of them."""

    plans: Annotated[
        dict[PlanName, Plan],
        Field(description="ways of training models for groups of timesteps, each under a name like question/plan"),
    ]
    experts: Experts

    @property
    def roles(self) -> dict[str, Role]:
        """The base; plans have recipes of their own."""
        return super().roles | {"base": FRESH}

    @property
    def placed_recipes(self) -> dict[str, Recipe]:
        """Those of the plans too."""
        return super().placed_recipes | {f"plans.{name}.recipe": plan.recipe for name, plan in self.plans.items()}

    @property
    def pruning_limits(self) -> dict[str, float]:
        """Those of the plans that prune."""
        schedule = self.schedule.tables()
        pruned = {name: plan for name, plan in self.plans.items() if plan.pruning is not None}
        return {f"plans.{name}.groups": plan.least_limit(schedule) for name, plan in pruned.items()}

    @model_validator(mode="after")
    def plans_can_be_carried_out(self) -> Self:
        """Every plan is asked for, and its groups, limits and recipe are sound, as far as that is known beforehand."""
        for name in self.experts.plans:
            if name not in self.plans:
                raise ValueError(f"experts.plans: '{name}' is no plan; there is: {', '.join(self.plans)}")
        schedule = self.schedule.tables()
        for name, plan in self.plans.items():
            if name not in self.experts.plans:
                raise ValueError(f"experts.plans: does not list plan '{name}'; add it there or delete it")
            try:
                plan.check(schedule, self.recipes["base"], self.training.batch_size)
            except UserError as error:
                raise ValueError(f"plans.{name}: {error}") from None
            if plan.groups.needs_excess and not self.has_floor:
                raise ValueError(f"plans.{name}.groups.kind: 'excess_loss' needs a floor; allowed: profile.floor: all")
        return self
