"""The whole of the study's params.yaml."""

from typing import Self

from pydantic import model_validator

from studies.boundary.settings import Sweep
from unequal.comparison.params import Plans
from unequal.settings.groups import TwoGroups


class Params(Plans):
    """Every arm is a plan, carried out on the base of its block; most have two experts with a boundary between them."""

    confirmation: Sweep

    @model_validator(mode="after")
    def seeds_are_fresh(self) -> Self:
        """What they confirm was found on others, and by what is judged."""
        self.confirmation.check(self.blocks, self.pilot)
        if (by := self.confirmation.by) not in self.blocks.endpoints:
            raise ValueError(f"confirmation.by: '{by}' is not judged; there is: {', '.join(self.blocks.endpoints)}")
        return self

    @model_validator(mode="after")
    def boundaries_are_told_on_a_flow(self) -> Self:
        """Before and after a shift they have times there, and nowhere else."""
        if self.schedule.name != "flow":
            raise ValueError(f"schedule.name: '{self.schedule.name}'; boundaries are told in times of a flow: flow")
        if not any(isinstance(plan.groups, TwoGroups) for plan in self.plans.values()):
            raise ValueError("plans: none has groups of kind 'boundary', which the study is about")
        return self
