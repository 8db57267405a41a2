"""Params files with groups of timesteps, each of which has an expert."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from unequal.errors import UserError
from unequal.settings.groups import Groups
from unequal.settings.names import Name
from unequal.settings.params.profiled import Profiled
from unequal.settings.pruning import Pruning
from unequal.timesteps.groups import check_groups, least_limit, timestep_groups


class Grouped(Profiled):
    """Groups of timesteps have experts of their own, as they are and pruned."""

    groups: Groups
    pruning: Annotated[
        dict[Name, Pruning], Field(description="ways of pruning by name; `expert` makes the pruned experts")
    ]

    @property
    def pruning_limits(self) -> dict[str, float]:
        """That of the group whose model is the smallest."""
        chosen = self.groups
        return {"groups.min_ratio": least_limit(chosen.kind, self.schedule.tables(), len(chosen.ids), chosen.min_ratio)}

    @model_validator(mode="after")
    def prunings_are_there(self) -> Self:
        """The experts' stage finds its own way of pruning."""
        if "expert" not in self.pruning:
            raise ValueError("pruning: 'expert' is missing; it makes the pruned experts")
        return self

    @model_validator(mode="after")
    def timesteps_can_be_grouped(self) -> Self:
        """Found out here, and not after the base has been trained, but for groups by its measured loss."""
        count, min_ratio, kind = len(self.groups.ids), self.groups.min_ratio, self.groups.kind
        try:
            schedule = self.schedule.tables()
            check_groups(schedule, count, min_ratio)
            if not self.groups.needs_excess:
                timestep_groups(kind, schedule, count, min_ratio)
        except UserError as error:
            raise ValueError(f"groups: {error}") from None
        if self.groups.needs_excess and not self.has_floor:
            raise ValueError(
                "groups.kind: 'excess_loss' needs a floor; allowed for profile.floor: all, or a number of images"
            )
        return self

    @model_validator(mode="after")
    def experts_can_be_drawn_for(self) -> Self:
        """Inside every group, where groups are known before the base has been trained."""
        count, min_ratio, kind = len(self.groups.ids), self.groups.min_ratio, self.groups.kind
        schedule, recipe = self.schedule.tables(), self.recipes.get("expert")
        if recipe is None or self.groups.needs_excess:
            return self
        for group in timestep_groups(kind, schedule, count, min_ratio):
            try:
                recipe.sampler.inside(group.range, schedule)
            except UserError as error:
                raise ValueError(f"recipes.expert.{error}") from None
        return self
