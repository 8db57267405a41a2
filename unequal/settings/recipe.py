"""`recipes`: what a training run chooses, one independent choice a key."""

from itertools import pairwise
from operator import not_
from typing import Literal, Self

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from unequal.diffusion.predictions import ModelPrediction
from unequal.settings.loss_weights import BINS, AnyLossWeight
from unequal.settings.samplers import AnySampler, Slot
from unequal.settings.strict import Strict
from unequal.settings.training import Average
from unequal.settings.values import Budget, DrawCount

#: Placeholder of SGD for AdamW's coefficient of the second moment: recipes that share betas differ in name.
UNUSED_BETA = 0.999


class MomentumDecay(Strict):
    """Paper 2's: the first-moment coefficient falls from betas[0] over the training."""

    kind: Literal["demon", "linear", "exponential"]
    floor: float = Field(ge=0, lt=1, description="the coefficient never falls below it; exponential ends there")
    lr_compensation: Literal["none", "raise", "lower"] = Field(
        description="raise: lr × (1 − β_s)/(1 − β_0), which keeps lr/(1 − β), the step of SGD's sum; lower: its inverse"
    )


class Optimizer(Strict):
    """An optimizer, its learning-rate schedule, and the decay of its momentum."""

    name: str = Field(default="adamw", description="of `unequal.training.optimizer.OPTIMIZERS`")
    keywords: dict[str, bool | int | float | str] = Field({}, exclude_if=not_, description="of that optimizer's entry")
    lr: PositiveFloat
    betas: tuple[float, float] = Field(description="of AdamW; the first is the momentum of SGD (then 0.999) and Muon")
    weight_decay: float = Field(ge=0)
    warmup_images: NonNegativeInt = Field(description="images over which lr rises from 0")
    decay: Literal["constant", "cosine", "linear"] = Field(description="how lr falls over the training")
    decay_share: float = Field(1.0, gt=0, le=1, description="share of the training, at its end, over which lr falls")
    final_share: float | None = Field(None, ge=0, le=1, description="of lr, where its decay ends; null: a tenth")
    #: A training resumes from the state of one that equals it so far, as after a NaN.
    lr_milestones: dict[PositiveInt, PositiveFloat] = Field(
        {}, exclude_if=not_, description="images seen → factor of lr from there on; {102400: 0.5} halves it"
    )
    momentum_decay: MomentumDecay | None = None

    @model_validator(mode="after")
    def betas_are_coefficients(self) -> Self:
        """Coefficients lie in [0, 1), and no setting stands where it has no meaning."""
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas: {list(self.betas)} must lie in [0, 1)")
        if self.name == "sgd" and self.betas[1] != UNUSED_BETA:
            raise ValueError(
                f"betas: {list(self.betas)}; SGD has one coefficient, the first, and the second no meaning; "
                f"allowed: {[self.betas[0], UNUSED_BETA]}"
            )
        if self.decay == "constant" and self.decay_share != 1:
            raise ValueError(f"decay_share: {self.decay_share} has no meaning for decay 'constant'; allowed: 1.0")
        if self.decay == "constant" and self.final_share is not None:
            raise ValueError("final_share: has no meaning for decay 'constant'; allowed: null")
        chosen = self.momentum_decay
        if chosen is not None and chosen.floor > self.betas[0]:
            raise ValueError(f"momentum_decay.floor: {chosen.floor} lies above betas[0], {self.betas[0]}")
        if chosen is not None and chosen.kind == "exponential" and chosen.floor == 0:
            raise ValueError("momentum_decay.floor: 0 is never reached by an exponential; allowed: above 0")
        return self


#: How the x0 of three heads is combined; see `unequal.diffusion.predictions`.
Selection = Literal["profile", "blend", "blend_diagonal", "epsilon", "v_prediction", "sample"]


class Mixing(Strict):
    """Training and combination of three heads (prediction `mixed`)."""

    #: Of an image the head with the smallest loss learns (best_native, paper 1's rule), or the one with the smallest
    #: error of x0 (best_common); or all learn, each loss over its own running mean.
    train: Literal["best_common", "best_native", "balanced"]
    half_life_images: PositiveInt | None = Field(None, description="of balanced: images after which a loss counts half")
    bins: DrawCount = Field(BINS, description="ranges of timesteps, equal in log-SNR, in which losses are averaged")
    select: Selection = Field(description="which head speaks at a timestep when sampling")

    @model_validator(mode="after")
    def half_life_belongs_to_balanced(self) -> Self:
        """A running mean needs its half-life; where there is none, it has no meaning."""
        if (self.train == "balanced") != (self.half_life_images is not None):
            verb = "needed by" if self.train == "balanced" else "has no meaning for"
            raise ValueError(f"half_life_images: {verb} '{self.train}'")
        return self


class WarmStart(Strict):
    """Start of a training that continues a model: fresh from its average, or from its last state."""

    weights: Literal["averaged", "last"] = Field(default="averaged", description="of the model")
    moments: Literal["fresh", "carried"] = Field("fresh", description="of the optimizer: none at first, or the model's")

    @property
    def needs_state(self) -> bool:
        """True where the model's folder must hold more than its averaged weights."""
        return self != WarmStart()

    def __str__(self) -> str:
        return f"weights {self.weights}, moments {self.moments}"


class Recipe(Strict):
    """One training run: independent choices (sampler, loss weight, prediction, optimizer) and a budget."""

    images: Budget = Field(description="budget: images seen, the unit of all comparisons")
    prediction: ModelPrediction
    mixing: Mixing | None = None
    sampler: AnySampler
    loss_weight: AnyLossWeight
    optimizer: Optimizer
    average: Average | None = Field(None, exclude_if=not_, description="of the weights; null: `training.average`")
    pruned_images: Budget | None = Field(None, exclude_if=not_, description="budget of a pruned expert; null: `images`")
    warm_start: WarmStart = Field(default=WarmStart(), description="with what a recipe that trains a model on begins")
    keep_state: bool = Field(False, description="save last weights and moments with each model, to continue them")
    snapshots: tuple[PositiveInt, ...] = Field((), description="images seen at which averaged weights are saved")

    @model_validator(mode="after")
    def choices_fit(self) -> Self:
        """Budgets hold what is to happen within them; sampler, prediction and loss weight have a meaning together."""
        # Warm-up and batches that fit into the budget of an unpruned expert fit into that of a pruned one.
        if self.pruned_images is not None and self.pruned_images < self.images:
            raise ValueError(f"pruned_images: {self.pruned_images} is less than images, {self.images}")
        # The end of the training is a model anyway.
        if any(after <= before for before, after in pairwise((*self.snapshots, self.images))):
            raise ValueError(
                f"snapshots: {list(self.snapshots)} must rise strictly and end before the budget, {self.images} images"
            )
        if late := [images for images in self.optimizer.lr_milestones if images >= self.images]:
            raise ValueError(f"optimizer.lr_milestones: {late[0]}; allowed: below the budget, {self.images} images")
        if (self.prediction == "mixed") != (self.mixing is not None):
            verb = "needed by" if self.prediction == "mixed" else "has no meaning for"
            raise ValueError(f"mixing: {verb} prediction '{self.prediction}'")
        if self.mixing is not None and self.mixing.train == "balanced" and self.loss_weight.kind != "none":
            raise ValueError(
                f"loss_weight.kind: '{self.loss_weight.kind}' would be divided out again by mixing.train 'balanced'; "
                "allowed: none"
            )
        self.loss_weight.check(self.sampler.density, three_heads=self.mixing is not None)
        self.sampler.check_weight(self.loss_weight.fixed and self.mixing is None)
        self.sampler.check(self.images, self.prediction == "epsilon" and self.loss_weight.kind == "none")
        return self


class RangeRecipe(Recipe):
    """A training inside one range of timesteps, a slot or a group, and a little beyond if asked."""

    sampler: Slot
