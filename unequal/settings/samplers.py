"""`sampler`: how the timesteps of a batch are drawn; each kind with its keys, its needs and how it is built."""

from abc import abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.settings.measured import Measured
from unequal.settings.numbers import Budget, DrawCount
from unequal.settings.strict import Strict
from unequal.settings.tabled import keywords, one_of, settings_of
from unequal.timesteps.curricula import asymmetric, curriculum, gaussian_target, mirror, noise_rate_target
from unequal.timesteps.densities import DENSITIES, Ends, masses
from unequal.timesteps.partition import TimestepSet, equal_log_snr
from unequal.timesteps.samplers import (
    AdaptiveSampler,
    ChangingSampler,
    EasyToHardSampler,
    IndependentSampler,
    LossSecondMomentSampler,
    LowDiscrepancySampler,
    MirroredSampler,
    StratifiedSampler,
    TimestepSampler,
    normalised,
    of_length,
    tilt,
    uniform,
    within,
)


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

    def inside(self, trained: TimestepSet, timesteps: int) -> TimestepSampler:
        """The sampler for a model that is meant for a range of T timesteps. Raises UserError where it is for all."""
        raise UserError(f"sampler.kind: '{self.kind}' draws from all timesteps; allowed inside a range: slot")

    @abstractmethod
    def made(self, schedule: NoiseSchedule, base: Measured) -> TimestepSampler:
        """The sampler, where `base` holds what is needed."""


#: A key of every kind that is not unbiased by its nature.
Unbiased = Annotated[bool, Field(description="weight losses by (1/T)/p_t: the uniform sampler's gradient")]


class Uniform(SamplerSettings):
    """Every timestep alike."""

    kind: Literal["uniform"]
    unbiased: Unbiased = False

    def made(self, schedule: NoiseSchedule, base: Measured) -> TimestepSampler:
        return IndependentSampler(uniform(schedule.timesteps), self.unbiased)


class LowDiscrepancy(SamplerSettings):
    """Every timestep alike, in batches that are evenly spread."""

    kind: Literal["low_discrepancy"]
    unbiased: Unbiased = False

    def made(self, schedule: NoiseSchedule, base: Measured) -> TimestepSampler:
        return LowDiscrepancySampler(uniform(schedule.timesteps), self.unbiased)


class Slot(SamplerSettings):
    """Uniform inside one range, a slot or a group, which the stage gives; weights cannot undo probabilities of zero."""

    kind: Literal["slot"]
    for_all: ClassVar[bool] = False
    overlap: float = Field(
        default=0.0, ge=0, le=1, description="share of its length by which the range is widened at either end"
    )

    def made(self, schedule: NoiseSchedule, base: Measured) -> TimestepSampler:
        raise UserError("sampler.kind: 'slot' draws inside a range, and this training is of all timesteps")

    def inside(self, trained: TimestepSet, timesteps: int) -> TimestepSampler:
        return IndependentSampler(within(trained.widened(self.overlap, timesteps), timesteps))


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


class EasyToHard(SamplerSettings):
    """The difficulty curriculum: clusters of equal log-SNR, opened from the noise end as losses cease to fall."""

    kind: Literal["easy_to_hard"]
    clusters: PositiveInt
    patience_images: Budget = Field(description="images without a lower loss of a batch that open the next cluster")

    def check(self, images: int, plain_epsilon: bool) -> None:
        if (opened := (self.clusters - 1) * self.patience_images) >= images:
            raise ValueError(
                f"sampler.patience_images: the hardest cluster would be opened after {opened} images at the earliest, "
                f"beyond the training of {images}"
            )

    def shortened(self, share: float) -> Self:
        return self.model_copy(update={"patience_images": max(1, round(share * self.patience_images))})

    def made(self, schedule: NoiseSchedule, base: Measured) -> TimestepSampler:
        return EasyToHardSampler(equal_log_snr(schedule, self.clusters, "clusters"), self.patience_images)


class LossSecondMoment(SamplerSettings):
    """Improved-diffusion's: p ∝ √E[L²] of the last losses of each timestep, learned while training."""

    kind: Literal["loss_second_moment"]
    history: int = Field(
        default=10,
        gt=0,
        le=1000,
        description="losses kept of each timestep; uniform until all are there: some 23 images a timestep for 10",
    )
    uniform_share: float = Field(default=0.001, ge=0, le=1, description="of uniform timesteps in the mix")
    warm_start: bool = Field(default=False, description="begin with the losses of the base's profile, not with none")
    unbiased: Unbiased = True

    @property
    def needs(self) -> tuple[str, ...]:
        return ("losses",) if self.warm_start else ()

    def check(self, images: int, plain_epsilon: bool) -> None:
        if self.warm_start and not plain_epsilon:
            raise ValueError(
                "sampler.warm_start: the profile has losses of ε without weights; allowed for prediction epsilon with "
                "loss_weight none"
            )

    def check_profile(self, draws: int, learned_variance: bool) -> None:
        if self.warm_start and learned_variance:
            raise ValueError(
                "sampler.warm_start: the profile has losses of ε alone; allowed with network.variance: fixed, since "
                "the bound of a learned one is learned from too"
            )
        if self.warm_start and draws < self.history:
            raise ValueError(
                f"sampler.warm_start: the profile has {draws} losses of a timestep, the history takes {self.history}; "
                "raise profile.images"
            )

    def made(self, schedule: NoiseSchedule, base: Measured) -> TimestepSampler:
        return LossSecondMomentSampler(
            schedule.timesteps,
            history=self.history,
            uniform_share=self.uniform_share,
            unbiased=self.unbiased,
            known=of_length(base["losses"], schedule.timesteps) if self.warm_start else None,
        )


class Adaptive(SamplerSettings):
    """Bins by the length of their gradients, measured while training: least gradient variance an image, unbiased."""

    kind: Literal["adaptive"]
    bins: PositiveInt | None = Field(default=None, description="intervals of log-SNR; null: the slots of equal loss")
    refresh_images: Budget = Field(description="images trained on between two measurements")
    images_per_bin: DrawCount = Field(description="gradients measured a bin each time; they count in the budget")
    memory: float = Field(default=0.5, ge=0, lt=1, description="share of the estimate that a measurement leaves")
    uniform_share: float = Field(default=0.1, gt=0, le=1, description="of uniform timesteps in the mix; bounds weights")

    @property
    def needs(self) -> tuple[str, ...]:
        return ("slots",) if self.bins is None else ()

    def made(self, schedule: NoiseSchedule, base: Measured) -> TimestepSampler:
        slots = base["slots"] if self.bins is None else equal_log_snr(schedule, self.bins, "bins")
        return AdaptiveSampler(
            slots.covering(schedule.timesteps),
            refresh_images=self.refresh_images,
            images_per_bin=self.images_per_bin,
            memory=self.memory,
            uniform_share=self.uniform_share,
        )


class Density(SamplerSettings):
    """A density of `unequal.timesteps.densities`, moved by a shift if that is asked for."""

    shift: PositiveFloat = Field(default=1.0, description="k, by which the density is moved towards the noise; 1: none")
    ends: Ends = Field(
        default="open", description="the outermost timesteps get what lies beyond them (open), or it is cut (closed)"
    )
    low_discrepancy: bool = Field(default=False, description="spread each batch evenly, as the sampler of that name")
    unbiased: Unbiased = False
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

    def made(self, schedule: NoiseSchedule, base: Measured) -> TimestepSampler:
        function = {one.__name__: one for one in DENSITIES}[self.kind]
        density = partial(function, **keywords(self, function))
        try:
            found = masses(density, schedule, self.shift, self.ends)
        except UserError as error:
            raise UserError(f"sampler.kind: '{self.kind}': {error}") from None
        sampler = (LowDiscrepancySampler if self.low_discrepancy else IndependentSampler)(found, self.unbiased)
        if self.normalised:
            sampler.known_loss = of_length(base["loss"], schedule.timesteps)
        return sampler


DENSITY_KINDS: tuple[type[Density], ...] = tuple(settings_of(one, Density) for one in DENSITIES)

KINDS: tuple[type[SamplerSettings], ...] = (
    Uniform,
    LowDiscrepancy,
    Slot,
    NearNoise,
    NearData,
    Loss,
    Stratified,
    Curriculum,
    Asymmetric,
    EasyToHard,
    LossSecondMoment,
    Adaptive,
    *DENSITY_KINDS,
)

#: How the timesteps of a batch are drawn: each kind with its own keys.
if TYPE_CHECKING:
    Sampler = SamplerSettings
else:
    Sampler = one_of(KINDS)
