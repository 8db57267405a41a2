"""`sampler`: each density over timesteps with its keys; `sampler_base` has the keys of all of them."""

from abc import abstractmethod
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field, PositiveFloat, PositiveInt

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.settings.learned_samplers import Adaptive, EasyToHard, InfoNoise, LossSecondMoment
from unequal.settings.loss_weights import keywords, one_of, settings_of
from unequal.settings.sampler_base import AnyDraw, BaseMeasurements, Sampler, SlotRanges, Spread, SpreadOrMirrored
from unequal.settings.values import Budget, Shift
from unequal.timesteps.densities import (
    DENSITIES,
    Ends,
    asymmetric,
    curriculum,
    gaussian_target,
    masses,
    noise_rate_target,
)
from unequal.timesteps.draws import equal_over
from unequal.timesteps.partition import Partition, TimestepSet
from unequal.timesteps.samplers import (
    ChangingSampler,
    TimestepSampler,
    even_over_log_snr,
    normalised,
    of_length,
    tilt,
    uniform,
    within,
)


class FixedDensity(Sampler):
    """Probabilities that do not change."""

    draw: SpreadOrMirrored = "independent"

    @abstractmethod
    def probabilities(self, schedule: NoiseSchedule, base: BaseMeasurements) -> np.ndarray:
        """The density [T], summing to 1."""

    def sampler(self, schedule: NoiseSchedule, base: BaseMeasurements) -> TimestepSampler:
        return TimestepSampler(self.probabilities(schedule, base), self.unbiased, self.draws(schedule))


class Uniform(FixedDensity):
    """Every timestep equally likely."""

    density: Literal["uniform"]

    def probabilities(self, schedule: NoiseSchedule, base: BaseMeasurements) -> np.ndarray:
        return uniform(schedule.timesteps)


class NearNoise(FixedDensity):
    """p ∝ ((t + ½)/T)^power."""

    density: Literal["near_noise"]
    power: PositiveFloat

    def probabilities(self, schedule: NoiseSchedule, base: BaseMeasurements) -> np.ndarray:
        return normalised(tilt(schedule.timesteps, self.power))


class NearData(FixedDensity):
    """The mirror image of `near_noise`."""

    density: Literal["near_data"]
    power: PositiveFloat

    def probabilities(self, schedule: NoiseSchedule, base: BaseMeasurements) -> np.ndarray:
        return normalised(tilt(schedule.timesteps, self.power)[::-1])


class Asymmetric(FixedDensity):
    """SpeeD's: timesteps below a boundary are more likely."""

    density: Literal["asymmetric"]
    boundary: float = Field(gt=0, lt=1, description="share of T; SpeeD takes 0.7")
    ratio: float = Field(gt=0, le=1e6, description="how many times as likely; SpeeD takes 5")

    def probabilities(self, schedule: NoiseSchedule, base: BaseMeasurements) -> np.ndarray:
        return asymmetric(schedule.timesteps, self.boundary, self.ratio)


class Loss(FixedDensity):
    """p ∝ L_t of the base's profile."""

    density: Literal["loss"]

    @property
    def needs(self) -> tuple[str, ...]:
        return ("loss",)

    def probabilities(self, schedule: NoiseSchedule, base: BaseMeasurements) -> np.ndarray:
        return normalised(of_length(base["loss"], schedule.timesteps))


class Formula(FixedDensity):
    """A density of `unequal.timesteps.densities`, shifted if asked for."""

    shift: Shift = Field(default=1.0, description="k, by which the density is moved towards the noise; 1: none")
    ends: Ends = Field(
        default="open", description="the outermost timesteps get what lies beyond them (open), or it is cut (closed)"
    )

    def probabilities(self, schedule: NoiseSchedule, base: BaseMeasurements) -> np.ndarray:
        function = {one.__name__: one for one in DENSITIES}[self.density]
        try:
            return masses(partial(function, **keywords(self, function)), schedule, self.shift, self.ends)
        except UserError as error:
            raise UserError(f"sampler.density: '{self.density}': {error}") from None


class OverParts(Sampler):
    """Equal probability for each of several ranges, uniform within it."""

    draw: AnyDraw = "independent"

    @abstractmethod
    def parts(self, schedule: NoiseSchedule, base: BaseMeasurements) -> Partition:
        """The ranges."""

    def sampler(self, schedule: NoiseSchedule, base: BaseMeasurements) -> TimestepSampler:
        parts = self.parts(schedule, base)
        return TimestepSampler(equal_over(parts), self.unbiased, self.draws(schedule, parts))


class OverSlots(OverParts):
    """Equal probability for each slot of equal loss."""

    density: Literal["slots"]
    ranges: SlotRanges | None = Field(
        default=None, description="[first, last] of each slot, from the data end to the noise end; null: the base's"
    )

    @property
    def needs(self) -> tuple[str, ...]:
        return (*super().needs, "slots") if self.ranges is None else super().needs

    def parts(self, schedule: NoiseSchedule, base: BaseMeasurements) -> Partition:
        return (self.ranges or base["slots"]).covering(schedule.timesteps)


class Slot(Sampler):
    """Uniform inside one range, a slot or a group, which the stage gives; weights cannot undo probabilities of zero."""

    density: Literal["slot"]
    draw: Spread = "independent"
    unbiased: Literal[False] = False
    normalised: Literal[False] = False
    for_all: ClassVar[bool] = False
    intervals: PositiveInt | None = Field(
        default=None,
        description="intervals of equal log-SNR, drawn from equally often: of all timesteps, what so many experts by "
        "SNR see together; null: every timestep is drawn equally often",
    )

    def sampler(self, schedule: NoiseSchedule, base: BaseMeasurements) -> TimestepSampler:
        raise UserError("sampler.density: 'slot' lies inside a range, and this training is of all timesteps")

    def inside(self, trained: TimestepSet, schedule: NoiseSchedule) -> TimestepSampler:
        density = within(trained, schedule.timesteps)
        if self.intervals is not None:
            density = even_over_log_snr(density, schedule, self.intervals)
        return TimestepSampler(density, draw=self.draws(schedule))


class Curriculum(Sampler):
    """Paper 2's: from uniform to a target that favours the harder timesteps."""

    density: Literal["curriculum"]
    in_images: ClassVar[tuple[str, ...]] = ("ramp_images",)
    draw: SpreadOrMirrored = "independent"
    normalised: Literal[False] = False
    target: Literal["noise_rate", "gaussian"]
    ramp_images: Budget = Field(description="images until the target is reached; at most the recipe's")
    uniform_share: float = Field(ge=0, lt=1, description="of its uniform probability, which every timestep keeps")
    mean: float = Field(default=0.3, ge=0, lt=1, description="of the gaussian target, as a share of T")
    std: PositiveFloat = Field(default=0.2, description="of the gaussian target, as a share of T")

    def check(self, images: int, plain_epsilon: bool) -> None:
        unused = self.model_fields_set & {"mean", "std"} if self.target != "gaussian" else set()
        if unused:
            raise ValueError(f"sampler.{min(unused)}: has no meaning for target '{self.target}'; allowed: 'gaussian'")
        if self.ramp_images > images:
            raise ValueError(f"sampler.ramp_images: {self.ramp_images} is longer than the training of {images} images")

    def sampler(self, schedule: NoiseSchedule, base: BaseMeasurements) -> TimestepSampler:
        goal = noise_rate_target(schedule)
        if self.target == "gaussian":
            goal = gaussian_target(schedule.timesteps, self.mean, self.std)
        changing = curriculum(goal, ramp_images=self.ramp_images, uniform_share=self.uniform_share)
        return ChangingSampler(changing, self.unbiased, self.draws(schedule))


KINDS: tuple[type[Sampler], ...] = (
    Uniform,
    Slot,
    NearNoise,
    NearData,
    Asymmetric,
    Loss,
    *(settings_of(one, Formula, "density") for one in DENSITIES),
    OverSlots,
    Curriculum,
    EasyToHard,
    LossSecondMoment,
    Adaptive,
    InfoNoise,
)

#: How the timesteps of a batch are drawn: each density with its own keys.
if TYPE_CHECKING:
    AnySampler = Sampler
else:
    AnySampler = one_of(KINDS, "density")
