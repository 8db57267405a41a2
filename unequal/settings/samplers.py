"""`sampler`: densities that change or are learned while a network trains, and the choice among all of them."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from unequal.settings.densities import (
    Asymmetric,
    Beta,
    Cauchy,
    Laplace,
    LogitNormal,
    LogNormal,
    Loss,
    Mode,
    OverSlots,
    PlainFormula,
    Sampler,
    Slot,
    Spread,
    SpreadOrMirrored,
    Tilted,
    Uniform,
)
from unequal.settings.loss_weights import BINS
from unequal.settings.values import Budget, DrawCount


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


class EasyToHard(Sampler):
    """The difficulty curriculum: clusters of equal log-SNR, opened from the noise end as losses cease to fall."""

    density: Literal["easy_to_hard"]
    in_images: ClassVar[tuple[str, ...]] = ("patience_images",)
    draw: Spread = "independent"
    unbiased: Literal[False] = False
    normalised: Literal[False] = False
    clusters: PositiveInt
    patience_images: Budget = Field(description="images without a lower loss of a batch that open the next cluster")

    def check(self, images: int, plain_epsilon: bool) -> None:
        if (opened := (self.clusters - 1) * self.patience_images) >= images:
            raise ValueError(
                f"sampler.patience_images: the hardest cluster would be opened after {opened} images at the earliest, "
                f"beyond the training of {images}"
            )


class LossSecondMoment(Sampler):
    """Improved-diffusion's: p ∝ √E[L²] of the last losses of each timestep, learned while training."""

    density: Literal["loss_second_moment"]
    draw: Spread = "independent"
    unbiased: bool = True
    normalised: Literal[False] = False
    history: int = Field(10, gt=0, le=1000, description="losses stored of each timestep; uniform until all are there")
    uniform_share: float = Field(default=0.001, ge=0, le=1, description="of uniform timesteps in the mix")
    warm_start: bool = Field(default=False, description="begin with the losses of the base's profile, not with none")

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


class Adaptive(Sampler):
    """Bins by the length of their gradients, measured while training: least gradient variance an image, unbiased."""

    density: Literal["adaptive"]
    draw: Spread = "low_discrepancy"
    unbiased: Literal[True] = True
    normalised: Literal[False] = False
    bins: PositiveInt | None = Field(default=None, description="intervals of log-SNR; null: the slots of equal loss")
    refresh_images: Budget = Field(description="images trained on between two measurements")
    images_per_bin: DrawCount = Field(description="gradients measured a bin each time; they count in the budget")
    memory: float = Field(default=0.5, ge=0, lt=1, description="share of the estimate that a measurement leaves")
    uniform_share: float = Field(default=0.1, gt=0, le=1, description="of uniform timesteps in the mix; bounds weights")

    @property
    def needs(self) -> tuple[str, ...]:
        return ("slots",) if self.bins is None else ()


class InfoNoise(Sampler):
    """InfoNoise (2602.18647): p·w by how much a timestep says about an image, from the losses of the training."""

    density: Literal["info_noise"]
    in_images: ClassVar[tuple[str, ...]] = ("warmup_images",)
    draw: Spread = "independent"
    unbiased: Literal[False] = False
    normalised: Literal[False] = False
    warmup_images: Budget = Field(description="images trained on with uniform timesteps at first")
    bins: DrawCount = Field(BINS, description="ranges of timesteps, equal in log-SNR, in which losses are averaged")
    half_life_images: Budget = Field(2000, description="further images of its range, after which a loss counts half")
    onset: PositiveFloat | None = Field(None, description="σ/α below which less is drawn; null: from the losses")
    uniform_share: float = Field(0.01, ge=0, lt=1, description="of uniform timesteps in the mix, weighted back")

    def check(self, images: int, plain_epsilon: bool) -> None:
        if self.warmup_images >= images:
            raise ValueError(f"sampler.warmup_images: {self.warmup_images} leave nothing of the {images} images")

    def check_profile(self, draws: int, learned_variance: bool) -> None:
        if learned_variance:
            raise ValueError(
                f"sampler.density: '{self.density}' learns from squared errors alone; allowed with network.variance: "
                "fixed"
            )

    def check_weight(self, fixed: bool) -> None:
        if not fixed:
            raise ValueError(
                f"sampler.density: '{self.density}' divides the loss by its weight, which is learned here, or of three "
                "heads; allowed: one head, and a weight by a formula or none"
            )


#: How the timesteps of a batch are drawn: each density with its own keys.
AnySampler = Annotated[
    Uniform
    | Slot
    | Tilted
    | Asymmetric
    | Loss
    | PlainFormula
    | LogitNormal
    | Mode
    | Beta
    | LogNormal
    | Laplace
    | Cauchy
    | OverSlots
    | Curriculum
    | EasyToHard
    | LossSecondMoment
    | Adaptive
    | InfoNoise,
    Field(discriminator="density"),
]
