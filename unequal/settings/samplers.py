"""`sampler`: how the timesteps of a batch are drawn; each kind with its keys, its needs and how it is built."""

from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.settings.learning_samplers import Adaptive, AdaTS, EasyToHard, InfoNoise, LossSecondMoment
from unequal.settings.measured import Measured
from unequal.settings.numbers import Budget, Shift
from unequal.settings.sampler_kind import SamplerSettings, Unbiased
from unequal.settings.tabled import keywords, one_of, settings_of
from unequal.timesteps.clusters import Likeness, alike
from unequal.timesteps.curricula import asymmetric, curriculum, gaussian_target, mirror, noise_rate_target
from unequal.timesteps.densities import DENSITIES, Ends, masses
from unequal.timesteps.partition import TimestepSet
from unequal.timesteps.samplers import (
    ChangingSampler,
    IndependentSampler,
    LowDiscrepancySampler,
    MirroredSampler,
    StratifiedSampler,
    TimestepSampler,
    even_over_log_snr,
    normalised,
    of_length,
    tilt,
    uniform,
    within,
)


class Normalisable(SamplerSettings):
    """A kind under which all weights can be scaled to what the base loses."""

    normalised: bool = Field(
        default=False,
        description="scale losses so that the base's come to their plain mean, whatever density and loss weight: "
        "E_p[w·L] = E[L]",
    )

    @property
    def needs(self) -> tuple[str, ...]:
        return ("loss",) if self.normalised else ()

    def check_weight(self, fixed: bool) -> None:
        if self.normalised and not fixed:
            raise ValueError(
                "sampler.normalised: the loss is weighted by what it was so far, or of three heads; allowed: one head, "
                "and a weight by a formula or none"
            )

    def build(self, schedule: NoiseSchedule, base: Measured | None = None) -> TimestepSampler:
        sampler, known = super().build(schedule, base), base or Measured()
        sampler.known_loss = of_length(known["loss"], schedule.timesteps) if self.normalised else None
        return sampler


class Uniform(Normalisable):
    """Every timestep alike."""

    kind: Literal["uniform"]
    unbiased: Unbiased = False

    def made(self, schedule: NoiseSchedule, base: Measured) -> TimestepSampler:
        return IndependentSampler(uniform(schedule.timesteps), self.unbiased)


class LowDiscrepancy(Normalisable):
    """Every timestep alike, in batches that are evenly spread."""

    kind: Literal["low_discrepancy"]
    unbiased: Unbiased = False

    def made(self, schedule: NoiseSchedule, base: Measured) -> TimestepSampler:
        return LowDiscrepancySampler(uniform(schedule.timesteps), self.unbiased)


class Slot(SamplerSettings):
    """Inside one range, a slot or a group, which the stage gives; weights cannot undo probabilities of zero."""

    kind: Literal["slot"]
    for_all: ClassVar[bool] = False
    overlap: float = Field(
        default=0.0, ge=0, le=1, description="share of its length by which the range is widened at either end"
    )
    intervals: PositiveInt | None = Field(
        default=None,
        description="of equal log-SNR, each of which is drawn from as often: of all timesteps, what so many experts by "
        "SNR see together; null: every timestep is drawn as often",
    )

    def made(self, schedule: NoiseSchedule, base: Measured) -> TimestepSampler:
        raise UserError("sampler.kind: 'slot' draws inside a range, and this training is of all timesteps")

    def inside(self, trained: TimestepSet, schedule: NoiseSchedule) -> TimestepSampler:
        drawn = within(trained.widened(self.overlap, schedule.timesteps), schedule.timesteps)
        if self.intervals is not None:
            drawn = even_over_log_snr(drawn, schedule, self.intervals)
        return IndependentSampler(drawn)


class NearNoise(SamplerSettings):
    """p ∝ ((t + ½)/T)^power."""

    kind: Literal["near_noise"]
    power: PositiveFloat
    unbiased: Unbiased = False

    def made(self, schedule: NoiseSchedule, base: Measured) -> TimestepSampler:
        return IndependentSampler(normalised(tilt(schedule.timesteps, self.power)), self.unbiased)


class NearData(SamplerSettings):
    """The mirror image of `near_noise`."""

    kind: Literal["near_data"]
    power: PositiveFloat
    unbiased: Unbiased = False

    def made(self, schedule: NoiseSchedule, base: Measured) -> TimestepSampler:
        return IndependentSampler(normalised(tilt(schedule.timesteps, self.power)[::-1]), self.unbiased)


class Loss(SamplerSettings):
    """p ∝ L_t of the base's profile."""

    kind: Literal["loss"]
    unbiased: Unbiased = False

    @property
    def needs(self) -> tuple[str, ...]:
        return ("loss",)

    def made(self, schedule: NoiseSchedule, base: Measured) -> TimestepSampler:
        return IndependentSampler(normalised(of_length(base["loss"], schedule.timesteps)), self.unbiased)


class Stratified(SamplerSettings):
    """Of every batch as many timesteps from each slot of equal loss."""

    kind: Literal["stratified"]
    unbiased: Unbiased = False

    @property
    def needs(self) -> tuple[str, ...]:
        return ("slots",)

    def made(self, schedule: NoiseSchedule, base: Measured) -> TimestepSampler:
        return StratifiedSampler(base["slots"].covering(schedule.timesteps), self.unbiased)


class Clusters(SamplerSettings):
    """Of every batch as many timesteps from each cluster, as ANT (2306.00354) trains."""

    kind: Literal["clusters"]
    count: PositiveInt = Field(description="K, by dynamic programming; ANT takes 5")
    alike_in: Likeness = Field(default="log_snr", description="what timesteps of a cluster have in common")
    unbiased: Unbiased = False

    def made(self, schedule: NoiseSchedule, base: Measured) -> TimestepSampler:
        return StratifiedSampler(alike(self.alike_in, schedule, self.count), self.unbiased)


class Curriculum(SamplerSettings):
    """Paper 2's: from uniform to a target that favours the harder timesteps."""

    kind: Literal["curriculum"]
    target: Literal["noise_rate", "gaussian"]
    ramp_images: Budget = Field(description="images until the target is reached; at most the recipe's")
    uniform_share: float = Field(ge=0, lt=1, description="of its uniform probability, which every timestep keeps")
    mean: float = Field(default=0.3, ge=0, lt=1, description="of the gaussian target, as a share of T")
    std: PositiveFloat = Field(default=0.2, description="of the gaussian target, as a share of T")
    unbiased: Unbiased = False

    def check(self, images: int, plain_epsilon: bool) -> None:
        unused = self.model_fields_set & {"mean", "std"} if self.target != "gaussian" else set()
        if unused:
            raise ValueError(f"sampler.{min(unused)}: has no meaning for target '{self.target}'; allowed: 'gaussian'")
        if self.ramp_images > images:
            raise ValueError(f"sampler.ramp_images: {self.ramp_images} is longer than the training of {images} images")

    def shortened(self, share: float) -> Self:
        return self.model_copy(update={"ramp_images": max(1, round(share * self.ramp_images))})

    def made(self, schedule: NoiseSchedule, base: Measured) -> TimestepSampler:
        goal = noise_rate_target(schedule)
        if self.target == "gaussian":
            goal = gaussian_target(schedule.timesteps, self.mean, self.std)
        changing = curriculum(goal, ramp_images=self.ramp_images, uniform_share=self.uniform_share)
        return ChangingSampler(changing, self.unbiased)


class Asymmetric(SamplerSettings):
    """SpeeD's: timesteps below a boundary are more likely."""

    kind: Literal["asymmetric"]
    boundary: float = Field(gt=0, lt=1, description="share of T; SpeeD takes 0.7")
    ratio: float = Field(gt=0, le=1e6, description="how many times as likely; SpeeD takes 5")
    mirrored: bool = Field(
        default=False, description="half of each batch is the other half's mirror image, as in SpeeD"
    )
    unbiased: Unbiased = False

    def made(self, schedule: NoiseSchedule, base: Measured) -> TimestepSampler:
        drawn = asymmetric(schedule.timesteps, self.boundary, self.ratio)
        if self.mirrored:
            return MirroredSampler(drawn, mirror(schedule), self.unbiased)
        return IndependentSampler(drawn, self.unbiased)


class Density(Normalisable):
    """A density of `unequal.timesteps.densities`, moved by a shift if that is asked for."""

    shift: Shift = Field(default=1.0, description="k, by which the density is moved towards the noise; 1: none")
    ends: Ends = Field(
        default="open", description="the outermost timesteps get what lies beyond them (open), or it is cut (closed)"
    )
    low_discrepancy: bool = Field(default=False, description="spread each batch evenly, as the sampler of that name")
    unbiased: Unbiased = False

    def made(self, schedule: NoiseSchedule, base: Measured) -> TimestepSampler:
        function = {one.__name__: one for one in DENSITIES}[self.kind]
        density = partial(function, **keywords(self, function))
        try:
            found = masses(density, schedule, self.shift, self.ends)
        except UserError as error:
            raise UserError(f"sampler.kind: '{self.kind}': {error}") from None
        return (LowDiscrepancySampler if self.low_discrepancy else IndependentSampler)(found, self.unbiased)


DENSITY_KINDS: tuple[type[Density], ...] = tuple(settings_of(one, Density) for one in DENSITIES)

KINDS: tuple[type[SamplerSettings], ...] = (
    Uniform,
    LowDiscrepancy,
    Slot,
    NearNoise,
    NearData,
    Loss,
    Stratified,
    Clusters,
    Curriculum,
    Asymmetric,
    EasyToHard,
    LossSecondMoment,
    Adaptive,
    InfoNoise,
    AdaTS,
    *DENSITY_KINDS,
)

#: How the timesteps of a batch are drawn: each kind with its own keys.
if TYPE_CHECKING:
    Sampler = SamplerSettings
else:
    Sampler = one_of(KINDS)
