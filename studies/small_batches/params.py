"""Settings of the study: batches of every arm, measured gradients, further training inside single ranges."""

from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveFloat, model_validator

from unequal.comparison.params import ComparisonParams
from unequal.comparison.settings import LEAST, refuse_twice
from unequal.settings.core import FRESH, Role
from unequal.settings.evaluation import Slots
from unequal.settings.strict import Strict
from unequal.settings.values import BatchSize, Budget, DrawCount, Name, Seed, fitting

#: Sources of a density over timesteps: slots of equal loss, each as likely as the others, or the lengths of gradients.
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


class Params(ComparisonParams):
    """Every arm is a recipe with batches of its own; slots and densities are those of a scout, the recipe `base`."""

    arms: Annotated[dict[Name, Arm], Field(description="batches of every arm")]
    slots: Slots
    mechanism: Annotated[
        tuple[Seed, ...], Field(min_length=LEAST, description="blocks in which gradients and retraining are measured")
    ]
    gradients: Gradients
    retraining: Retraining

    @property
    def roles(self) -> dict[str, Role]:
        """The scout beside the arms."""
        return {"base": FRESH} | super().roles

    @property
    def with_other_batches(self) -> set[str]:
        """All arms' recipes."""
        return {f"recipes.{name}" for name in self.arms}

    @model_validator(mode="after")
    def arms_have_batches(self) -> Self:
        """Each arm, and nothing else; each sees a batch at least."""
        for name in self.comparison.arms.all:
            if name not in self.arms:
                raise ValueError(f"arms: '{name}' of comparison.arms is missing")
        for name, arm in self.arms.items():
            if name not in self.comparison.arms.all:
                raise ValueError(f"arms: '{name}' is no arm; there is: {', '.join(self.comparison.arms.all)}")
            if arm.batch_size > (images := self.recipes[name].images):
                raise ValueError(f"arms.{name}.batch_size: {arm.batch_size}; recipes.{name} sees {images} images")
            if arm.density is not None and self.recipes[name].sampler.density != "uniform":
                kind = self.recipes[name].sampler.density
                raise ValueError(f"recipes.{name}.sampler.density: '{kind}'; arms.{name} has a density: uniform")
        return self

    @model_validator(mode="after")
    def mechanisms_are_of_blocks(self) -> Self:
        """Each once, of those that are trained."""
        refuse_twice("mechanism", self.mechanism)
        for block in self.mechanism:
            if block not in self.comparison.all_seeds:
                raise ValueError(f"mechanism: {block} is no block; there is: {list(self.comparison.all_seeds)}")
        return self

    @model_validator(mode="after")
    def slots_can_be_made(self) -> Self:
        """Slots share the scout's whole loss; `retraining` names those that are trained inside."""
        if self.slots.count > (timesteps := self.schedule.timesteps):
            raise ValueError(f"slots.count: {self.slots.count} of {timesteps} timesteps; at most as many")
        if self.slots.loss != "total" or self.slots.finetune:
            raise ValueError("slots: no floor is profiled, and no slot fine-tuned; allowed: loss total, finetune []")
        return self

    @model_validator(mode="after")
    def measured_arms_keep_their_state(self) -> Self:
        """Adam's moments show what it sees of gradients."""
        for name in self.gradients.arms:
            if name not in self.comparison.arms.all:
                raise ValueError(f"gradients.arms: '{name}' is no arm; there is: {', '.join(self.comparison.arms.all)}")
            recipe = self.recipes[name]
            if not recipe.keep_state or recipe.optimizer.name != "adamw":
                raise ValueError(f"gradients.arms: '{name}' needs recipes.{name}.keep_state: true, and adamw")
        return self

    @model_validator(mode="after")
    def retraining_can_be_done(self) -> Self:
        """Arms are retrained inside existing slots, once each."""
        chosen = self.retraining
        for axis in ("arms", "ways"):
            if len(set(getattr(chosen, axis))) < len(getattr(chosen, axis)):
                raise ValueError(f"retraining.{axis}: {list(getattr(chosen, axis))} names one twice")
        for name in chosen.arms:
            if name not in self.comparison.arms.all:
                raise ValueError(
                    f"retraining.arms: '{name}' is no arm; there is: {', '.join(self.comparison.arms.all)}"
                )
            if self.arms[name].batch_size > chosen.images:
                raise ValueError(f"retraining.images: {chosen.images}, less than a batch of arms.{name}")
        for way in chosen.ways:
            if way.startswith(SLOT) and int(way.removeprefix(SLOT)) > self.slots.count:
                raise ValueError(f"retraining.ways: '{way}'; there are slots 1 … {self.slots.count}")
        if chosen.warmup_images > chosen.images:
            raise ValueError(f"retraining.warmup_images: {chosen.warmup_images} of {chosen.images} images")
        return self
