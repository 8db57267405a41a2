"""Params files with slots of equal loss, which are made of the base's profile."""

from typing import Self

from pydantic import model_validator

from unequal.settings.params.profiled import Profiled
from unequal.settings.slots import Slots


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
