"""Params files with a profile of the base's loss, and with slots and groups of timesteps that are made of it."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from unequal.errors import UserError
from unequal.settings.condition import Unconditional
from unequal.settings.groups import Groups
from unequal.settings.names import Name
from unequal.settings.profile import Profile
from unequal.settings.pruning import Pruning
from unequal.settings.slots import Slots
from unequal.settings.whole.core import Core, check_models
from unequal.timesteps.groups import check_groups, timestep_groups


class Profiled(Core):
    """Models' losses are measured at every timestep."""

    profile: Profile
    profiled_models: Annotated[
        tuple[Name, ...], Field(description="models whose losses are profiled, each an instance")
    ]

    @property
    def profiled_images(self) -> int:
        """Of the training images, as of the held-out ones."""
        return self.profile.images

    @property
    def has_floor(self) -> bool:
        """Whether the least possible loss is profiled too."""
        return self.profile.floor != "none"

    @model_validator(mode="after")
    def profiled_models_are_trained(self) -> Self:
        """What is profiled is also trained."""
        check_models("profiled_models", self.profiled_models, self.trained_models)
        return self

    @model_validator(mode="after")
    def floor_is_known(self) -> Self:
        """The best denoiser is known in closed form where a network sees x_t alone."""
        condition = self.network.condition
        if not isinstance(condition, Unconditional) and self.has_floor:
            raise ValueError(
                f"profile.floor: {self.profile.floor} would be the least loss of a network that sees x_t alone; "
                f"allowed for {condition.title}: none"
            )
        return self


class Slotted(Profiled):
    """Timesteps are cut into slots of equal loss."""

    slots: Slots

    @model_validator(mode="after")
    def slots_can_be_made(self) -> Self:
        """No more slots than timesteps, and an excess only over a floor."""
        count, timesteps = self.slots.count, self.schedule.timesteps
        if count > timesteps:
            raise ValueError(f"slots.count: {count} ranges of {timesteps} timesteps; at most schedule.timesteps")
        if self.slots.loss == "excess" and not self.has_floor:
            raise ValueError(
                "slots.loss: 'excess' needs a floor; allowed for profile.floor: all, or a number of images"
            )
        return self


class Grouped(Profiled):
    """Groups of timesteps have experts of their own, as they are and pruned."""

    groups: Groups
    pruning: Annotated[
        dict[Name, Pruning], Field(description="ways of pruning by name; `expert` makes the pruned experts")
    ]

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
            if kind != "excess_loss":
                timestep_groups(kind, schedule, count, min_ratio)
        except UserError as error:
            raise ValueError(f"groups: {error}") from None
        if kind == "excess_loss" and not self.has_floor:
            raise ValueError(
                "groups.kind: 'excess_loss' needs a floor; allowed for profile.floor: all, or a number of images"
            )
        return self
