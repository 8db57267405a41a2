"""`arms`: how their batches are made; `gradients`: what is measured of them; `retraining`: inside single ranges."""

from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveFloat, model_validator

from unequal.settings.strict import Strict
from unequal.settings.values import BatchSize, Budget, DrawCount, Name, fitting

#: What a density over timesteps is made of: slots of equal loss, each alike, or the lengths of gradients.
DensityName = Literal["slots", "least_variance"]
UNIFORM, NEAR_NOISE, SLOT = "uniform", "near_noise", "slot_"
#: Where a model is trained on: everywhere, nearer to the noise, or inside a slot, counted from 1 at the data end.
Way = Annotated[
    str,
    *fitting(
        f"{UNIFORM}|{NEAR_NOISE}|{SLOT}[1-9][0-9]?", f"no way; allowed: {UNIFORM}, {NEAR_NOISE}, {SLOT}1, {SLOT}2 …"
    ),
]


class Arm(Strict):
    """How the batches of an arm are made; its rate stands in its recipe, meant for batches as they are."""

    batch_size: BatchSize = Field(description="images an optimizer step")
    second_moment: Literal["images", "steps"] = Field(
        default="images",
        description="in what Adam's second moment forgets as fast as at training.batch_size, for which betas are meant",
    )
    density: DensityName | None = Field(default=None, description="of timesteps; null: uniform")
    serves: Literal["draws", "weights"] | None = Field(
        default=None, description="what the density decides: draws, weighted back, or weights of uniform draws"
    )

    @model_validator(mode="after")
    def a_density_serves(self) -> Self:
        """One way, where there is one."""
        if (self.density is None) != (self.serves is None):
            verb = "has no meaning without" if self.density is None else "is needed by"
            raise ValueError(f"serves: {verb} a density")
        return self


class Gradients(Strict):
    """How many images stand behind the moments of gradients, and of which arms they are measured on their way."""

    arms: tuple[Name, ...] = Field(min_length=1, description="measured at their snapshots and at their end")
    batch_size: BatchSize = Field(description="for which samplers are compared by the scatter of their batches")
    parts: int = Field(gt=0, le=10_000, description="cells that a slot is cut into; moments are constant within one")
    folds: int = Field(ge=3, le=10_000, description="parts of the images, from which standard errors are made")
    single_images: DrawCount = Field(description="a cell, for lengths of single gradients; a multiple of folds")
    mean_images: DrawCount = Field(description="a cell, for its mean gradient; a multiple of folds")
    uniform_share: float = Field(
        gt=0, le=1, description="of uniform timesteps in the density of least variance; bounds weights by its inverse"
    )

    @model_validator(mode="after")
    def folds_are_alike(self) -> Self:
        """Each fold holds as many images of a cell."""
        for field in ("single_images", "mean_images"):
            if getattr(self, field) % self.folds:
                raise ValueError(f"{field}: {getattr(self, field)} is no multiple of the {self.folds} folds")
        return self


class Retraining(Strict):
    """Ends of arms, each trained on in several ways with batches of its own size, to see what that does to the rest."""

    arms: tuple[Name, ...] = Field(min_length=1)
    ways: tuple[Way, ...] = Field(min_length=1)
    images: Budget = Field(description="of every training on")
    warmup_images: NonNegativeInt
    lr_share: PositiveFloat = Field(description="of the arm's rate, at which it is trained on")
    power: PositiveFloat = Field(description="a of near_noise, p ∝ ((t + ½)/T)^a")
    samples: int = Field(gt=0, le=64, description="pictures from the same noise that are kept of each")
