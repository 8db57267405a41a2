"""`recipes`: what a training run chooses, one independent choice a key."""

from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from unequal.settings.strict import Strict


class Plain(Strict):
    """Samplers that need nothing but the profile or the slots."""

    kind: Literal["uniform", "loss", "stratified", "low_discrepancy"]
    unbiased: bool = Field(default=False, description="weight losses by (1/T)/p_t: the uniform sampler's gradient")


class Slot(Strict):
    """Uniform inside the range that a stage gives; weights cannot undo probabilities of zero."""

    kind: Literal["slot"]
    overlap: float = Field(
        default=0.0, ge=0, le=1, description="share of its length by which the range is widened at either end"
    )


class Tilted(Strict):
    """p ∝ ((t + ½)/T)^power, or its mirror image."""

    kind: Literal["near_noise", "near_data"]
    power: PositiveFloat
    unbiased: bool = False


class Curriculum(Strict):
    """Paper 2's: from uniform to a target that favours the harder timesteps."""

    kind: Literal["curriculum"]
    target: Literal["noise_rate", "gaussian"]
    ramp_images: PositiveInt = Field(description="images until the target is reached; at most the recipe's")
    floor: float = Field(ge=0, lt=1, description="share of its uniform probability that every timestep keeps")
    mean: float = Field(default=0.3, ge=0, lt=1, description="of the gaussian target, as a share of T")
    std: PositiveFloat = Field(default=0.2, description="of the gaussian target, as a share of T")
    unbiased: bool = False


class Asymmetric(Strict):
    """SpeeD's: timesteps below a boundary are more likely."""

    kind: Literal["asymmetric"]
    boundary: float = Field(gt=0, lt=1, description="share of T; SpeeD takes 0.7")
    ratio: PositiveFloat = Field(description="how many times as likely; SpeeD takes 5")
    unbiased: bool = False


class EasyToHard(Strict):
    """The difficulty curriculum: clusters of equal log-SNR, opened one after another from the noise end."""

    kind: Literal["easy_to_hard"]
    clusters: PositiveInt
    phase_images: PositiveInt = Field(description="images until the next cluster is opened")


class LossSecondMoment(Strict):
    """Improved-diffusion's: p ∝ √E[L²] of the last losses of each timestep, learned while training."""

    kind: Literal["loss_second_moment"]
    history: PositiveInt = Field(
        default=10,
        description="losses kept of each timestep; uniform until all are there: some 23 images a timestep for 10",
    )
    uniform_share: float = Field(default=0.001, ge=0, le=1, description="of uniform timesteps in the mix")
    warm_start: bool = Field(default=False, description="begin with the losses of the base's profile, not with none")
    unbiased: bool = True


class Adaptive(Strict):
    """Bins by the length of their gradients, measured while training: least gradient variance an image, unbiased."""

    kind: Literal["adaptive"]
    bins: PositiveInt | None = Field(default=None, description="intervals of log-SNR; null: the slots of equal loss")
    refresh_images: PositiveInt = Field(description="images trained on between two measurements")
    images_per_bin: PositiveInt = Field(description="gradients measured a bin each time; they count in the budget")
    memory: float = Field(default=0.5, ge=0, lt=1, description="share of the estimate that a measurement leaves")
    uniform_share: float = Field(default=0.1, gt=0, le=1, description="of uniform timesteps in the mix; bounds weights")


#: How the timesteps of a batch are drawn: each kind with its own keys.
Sampler = Annotated[
    Plain | Slot | Tilted | Curriculum | Asymmetric | EasyToHard | LossSecondMoment | Adaptive,
    Field(discriminator="kind"),
]


def needs_base(sampler: Sampler) -> bool:
    """Whether a sampler is made from the profile or the slots of a base model."""
    match sampler:
        case LossSecondMoment():
            return sampler.warm_start
        case Adaptive():
            return sampler.bins is None
    return sampler.kind in ("loss", "stratified")


class LossWeight(Strict):
    """How the losses of different timesteps are weighted: not at all, by Min-SNR or by P2."""

    kind: Literal["none", "min_snr", "p2"]
    gamma: PositiveFloat | None = Field(default=None, description="γ of min_snr (5) or p2 (1)")

    @model_validator(mode="after")
    def gamma_belongs_to_a_weight(self) -> Self:
        """A weight needs its γ; no weight has none."""
        if (self.kind == "none") != (self.gamma is None):
            raise ValueError(f"gamma: {'has no meaning for' if self.kind == 'none' else 'needed by'} '{self.kind}'")
        return self


class MomentumDecay(Strict):
    """Paper 2's: the first-moment coefficient falls from betas[0] over the training."""

    kind: Literal["demon", "linear", "exponential"]
    floor: float = Field(ge=0, lt=1, description="the coefficient never falls below it; exponential ends there")
    lr_compensation: Literal["none", "raise", "lower"] = Field(
        description="lr × (1 − β_s)/(1 − β_0), which keeps lr/(1 − β) for sums like SGD's, or its inverse"
    )


class Optimizer(Strict):
    """AdamW or SGD, its learning-rate schedule, and the decay of its momentum."""

    name: Literal["adamw", "sgd"] = "adamw"
    lr: PositiveFloat
    betas: tuple[float, float] = Field(description="of AdamW; SGD's momentum is the first")
    weight_decay: float = Field(ge=0)
    warmup_images: NonNegativeInt = Field(description="images over which lr rises from 0")
    decay: Literal["constant", "cosine"] = Field(description="lr after the warm-up; cosine falls to a tenth")
    momentum_decay: MomentumDecay | None = None

    @model_validator(mode="after")
    def betas_are_coefficients(self) -> Self:
        """Both moments are running averages; only a plain sum grows with its momentum."""
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas: {list(self.betas)} must lie in [0, 1)")
        chosen = self.momentum_decay
        if chosen is not None and chosen.lr_compensation != "none" and self.name != "sgd":
            raise ValueError(
                f"momentum_decay.lr_compensation: '{chosen.lr_compensation}' does not fit {self.name}, whose first "
                "moment is an average; allowed: none"
            )
        if chosen is not None and chosen.floor > self.betas[0]:
            raise ValueError(f"momentum_decay.floor: {chosen.floor} lies above betas[0], {self.betas[0]}")
        if chosen is not None and chosen.kind == "exponential" and chosen.floor == 0:
            raise ValueError("momentum_decay.floor: 0 is never reached by an exponential; allowed: above 0")
        return self


#: How the x0 of three heads is combined; see `unequal.diffusion.heads`.
Selection = Literal["profile", "blend", "blend_diagonal", "epsilon", "v_prediction", "sample"]


class Mixing(Strict):
    """How three heads are trained and combined (prediction `mixed`)."""

    train: Literal["best_common", "best_native", "balanced"] = Field(
        description="of an image the best head learns, by errors of x0 or by losses as they are; or all, each loss "
        "over its own running mean"
    )
    half_life_images: PositiveInt | None = Field(
        default=None, description="of balanced: images after which a loss counts half in its head's running mean"
    )
    bins: PositiveInt = Field(
        default=40, description="ranges of timesteps, alike in log-SNR, in which losses are averaged and wins counted"
    )
    select: Selection = Field(description="which head speaks at a timestep when sampling")

    @model_validator(mode="after")
    def half_life_belongs_to_balanced(self) -> Self:
        """A running mean needs its half-life; where there is none, it has no meaning."""
        if (self.train == "balanced") != (self.half_life_images is not None):
            verb = "needed by" if self.train == "balanced" else "has no meaning for"
            raise ValueError(f"half_life_images: {verb} '{self.train}'")
        return self


class Recipe(Strict):
    """One training run: independent choices (sampler, loss weight, prediction, optimizer) and a budget."""

    images: PositiveInt = Field(description="budget: images seen, the unit of all comparisons")
    prediction: Literal["epsilon", "v_prediction", "sample", "mixed"]
    mixing: Mixing | None = None
    sampler: Sampler
    loss_weight: LossWeight
    optimizer: Optimizer
    snapshots: tuple[PositiveInt, ...] = Field(
        default=(), description="images seen at which the averaged weights are kept as models of their own"
    )

    @model_validator(mode="after")
    def snapshots_rise(self) -> Self:
        """The end of the training is a model anyway."""
        if any(after <= before for before, after in pairwise((*self.snapshots, self.images))):
            raise ValueError(
                f"snapshots: {list(self.snapshots)} must rise strictly and end before the budget, {self.images} images"
            )
        return self

    @model_validator(mode="after")
    def choices_fit(self) -> Self:
        """Mixing goes with prediction `mixed` and only with it; a changing sampler fits into the training."""
        if (self.prediction == "mixed") != (self.mixing is not None):
            verb = "needs" if self.prediction == "mixed" else "has no use for"
            raise ValueError(f"prediction '{self.prediction}' {verb} the key mixing")
        if self.mixing is not None and self.mixing.train == "balanced" and self.loss_weight.kind != "none":
            raise ValueError(
                f"loss_weight.kind: '{self.loss_weight.kind}' would be divided out again by mixing.train 'balanced'; "
                "allowed: none"
            )
        if isinstance(self.sampler, Curriculum) and self.sampler.ramp_images > self.images:
            raise ValueError(
                f"sampler.ramp_images: {self.sampler.ramp_images} is longer than the training of {self.images} images"
            )
        warm = isinstance(self.sampler, LossSecondMoment) and self.sampler.warm_start
        if warm and (self.prediction != "epsilon" or self.loss_weight.kind != "none"):
            raise ValueError(
                "sampler.warm_start: the profile has losses of ε without weights; allowed for prediction epsilon with "
                "loss_weight none"
            )
        if isinstance(self.sampler, EasyToHard) and self.last_phase >= self.images:
            raise ValueError(
                f"sampler.phase_images: the hardest cluster would be opened after {self.last_phase} images, "
                f"beyond the training of {self.images}"
            )
        return self

    @property
    def overlap(self) -> float:
        """By what share of its length a range of timesteps is trained beyond its borders."""
        return self.sampler.overlap if isinstance(self.sampler, Slot) else 0.0

    @property
    def last_phase(self) -> int:
        """Images after which an easy-to-hard sampler draws from all timesteps; 0 for the other samplers."""
        sampler = self.sampler
        return (sampler.clusters - 1) * sampler.phase_images if isinstance(sampler, EasyToHard) else 0
