"""The whole of the study's params.yaml."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from studies.small_batches.settings import SLOT, Arm, Gradients, Retraining
from unequal.comparison.params import ComparisonParams
from unequal.comparison.settings import LEAST, refuse_twice
from unequal.settings.params.core import FRESH, Role
from unequal.settings.profile import Slots
from unequal.settings.values import Name, Seed


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
        """Of the scout's whole loss; which of them are trained inside is said by `retraining`."""
        if self.slots.count > (timesteps := self.schedule.timesteps):
            raise ValueError(f"slots.count: {self.slots.count} of {timesteps} timesteps; at most as many")
        if self.slots.loss != "total" or self.slots.finetune:
            raise ValueError("slots: no floor is profiled, and no slot fine-tuned; allowed: loss total, finetune []")
        return self

    @model_validator(mode="after")
    def measured_arms_keep_their_state(self) -> Self:
        """What Adam sees of gradients is told by its moments."""
        for name in self.gradients.arms:
            if name not in self.comparison.arms.all:
                raise ValueError(f"gradients.arms: '{name}' is no arm; there is: {', '.join(self.comparison.arms.all)}")
            recipe = self.recipes[name]
            if not recipe.keep_state or recipe.optimizer.name != "adamw":
                raise ValueError(f"gradients.arms: '{name}' needs recipes.{name}.keep_state: true, and adamw")
        return self

    @model_validator(mode="after")
    def retraining_can_be_done(self) -> Self:
        """Of arms, inside slots that there are, once each."""
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
