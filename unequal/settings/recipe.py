"""`recipes`: what a training run chooses, one independent choice a key."""

from typing import Literal, Self

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from unequal.settings.strict import Strict


class Sampler(Strict):
    """How the timesteps of a batch are drawn."""

    kind: Literal["uniform", "near_noise", "near_data", "slot", "loss", "stratified", "low_discrepancy"]
    power: PositiveFloat | None = Field(default=None, description="exponent a of near_noise and near_data")
    unbiased: bool = Field(default=False, description="weight losses by (1/T)/p_t: the uniform sampler's gradient")

    @model_validator(mode="after")
    def power_belongs_to_tilted_samplers(self) -> Self:
        """`power` is needed by two kinds, and weights cannot undo probabilities of zero."""
        tilted = self.kind in ("near_noise", "near_data")
        if tilted != (self.power is not None):
            raise ValueError(f"power: {'needed by' if tilted else 'has no meaning for'} sampler '{self.kind}'")
        if self.kind == "slot" and self.unbiased:
            raise ValueError("unbiased: true cannot be had with sampler 'slot', where most timesteps have p = 0")
        return self


class LossWeight(Strict):
    """How the losses of different timesteps are weighted (METHODS of Min-SNR and P2)."""

    kind: Literal["none", "min_snr", "p2"]
    gamma: PositiveFloat | None = Field(default=None, description="γ of min_snr (5) or p2 (1)")

    @model_validator(mode="after")
    def gamma_belongs_to_a_weight(self) -> Self:
        """A weight needs its γ; no weight has none."""
        if (self.kind == "none") != (self.gamma is None):
            raise ValueError(f"gamma: {'has no meaning for' if self.kind == 'none' else 'needed by'} '{self.kind}'")
        return self


class Optimizer(Strict):
    """AdamW and its learning-rate schedule."""

    lr: PositiveFloat
    betas: tuple[float, float]
    weight_decay: float = Field(ge=0)
    warmup_images: NonNegativeInt = Field(description="images over which lr rises from 0")
    decay: Literal["constant", "cosine"] = Field(description="lr after the warm-up; cosine falls to a tenth")

    @model_validator(mode="after")
    def betas_are_coefficients(self) -> Self:
        """Both moments are running averages."""
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas: {list(self.betas)} must lie in [0, 1)")
        return self


class Mixing(Strict):
    """How three heads are trained and combined (prediction `mixed`)."""

    compare: Literal["common", "native"] = Field(description="space in which a head's loss is the smallest")
    select: Literal["profile", "blend", "blend_diagonal", "epsilon", "v_prediction", "sample"] = Field(
        description="which head speaks at a timestep when sampling"
    )


class Recipe(Strict):
    """One training run: five independent choices and a budget."""

    images: PositiveInt = Field(description="budget: images seen, the unit of all comparisons")
    prediction: Literal["epsilon", "v_prediction", "sample", "mixed"]
    mixing: Mixing | None = None
    sampler: Sampler
    loss_weight: LossWeight
    optimizer: Optimizer

    @model_validator(mode="after")
    def choices_fit(self) -> Self:
        """Mixing goes with prediction `mixed`, and only with it."""
        if (self.prediction == "mixed") != (self.mixing is not None):
            verb = "needs" if self.prediction == "mixed" else "has no use for"
            raise ValueError(f"prediction '{self.prediction}' {verb} the key mixing")
        return self
