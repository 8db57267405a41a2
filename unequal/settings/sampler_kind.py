"""What all kinds of `sampler` have in common."""

from abc import abstractmethod
from typing import Annotated, ClassVar, Self

from pydantic import Field

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.settings.measured import Measured
from unequal.settings.strict import Strict
from unequal.timesteps.partition import TimestepSet
from unequal.timesteps.samplers import TimestepSampler


class SamplerSettings(Strict):
    """What all kinds have in common."""

    kind: str
    #: Whether it is for a training of all timesteps.
    for_all: ClassVar[bool] = True

    @property
    def needs(self) -> tuple[str, ...]:
        """What must have been measured of the base: keys of `Measured`."""
        return ()

    def check(self, images: int, plain_epsilon: bool) -> None:
        """Raise ValueError where it does not fit a training of so many images, of ε without loss weights or not."""

    def check_profile(self, draws: int, learned_variance: bool) -> None:
        """Raise ValueError where it needs more than a profile of so many draws a timestep tells.

        A profile holds squared errors, and no terms of the bound by which a variance is learned.
        """

    def check_weight(self, fixed: bool) -> None:
        """Raise ValueError where it does not fit a loss weight, which is fixed before the training or not."""

    def shortened(self, share: float) -> Self:
        """For a training of a share of the images: what is told in images of its course goes along."""
        return self

    def build(self, schedule: NoiseSchedule, base: Measured | None = None) -> TimestepSampler:
        """The sampler. Raises UserError where it cannot be made for this schedule, or from what is known of a base."""
        known = base or Measured()
        if not known.keys() >= set(self.needs):
            raise UserError(f"sampler.kind: '{self.kind}' needs the base's profile, and there is none")
        return self.made(schedule, known)

    def check_schedule(self, schedule: NoiseSchedule) -> None:
        """Raise UserError where it cannot be made for this schedule, as far as that is known before all stages."""
        if self.for_all and not self.needs:
            self.build(schedule)

    def inside(self, trained: TimestepSet, schedule: NoiseSchedule) -> TimestepSampler:
        """The sampler for a model that is meant for a range of timesteps. Raises UserError where it is for all."""
        raise UserError(f"sampler.kind: '{self.kind}' draws from all timesteps; allowed inside a range: slot")

    @abstractmethod
    def made(self, schedule: NoiseSchedule, base: Measured) -> TimestepSampler:
        """The sampler, where `base` holds what is needed."""


#: A key of every kind that is not unbiased by its nature.
Unbiased = Annotated[bool, Field(description="weight losses by (1/T)/p_t: the uniform sampler's gradient")]
