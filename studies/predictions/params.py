"""The whole of the study's params.yaml."""

from typing import Self

from pydantic import model_validator

from studies.predictions.settings import Predictions
from unequal.comparison.params import Recipes
from unequal.diffusion.predictions import HEADS
from unequal.settings.params.core import THREE_HEADS, Role
from unequal.training.objectives.three_heads import PERIODS


class Params(Recipes):
    """Every arm is a recipe, of one head or of three."""

    predictions: Predictions

    @property
    def roles(self) -> dict[str, Role]:
        """An arm of three heads mixes predictions."""
        return super().roles | dict.fromkeys(self.predictions.mixed, THREE_HEADS)

    @property
    def with_other_batches(self) -> set[str]:
        """Recipes of arms with batches of their own."""
        return {f"recipes.{name}" for name in self.predictions.batch_sizes}

    @property
    def samples_three_heads(self) -> bool:
        """All arms are sampled."""
        return True

    @model_validator(mode="after")
    def arms_have_heads(self) -> Self:
        """Each arm has one head or three, and nothing else has."""
        named = (*self.predictions.single, *self.predictions.mixed)
        if unknown := [name for name in named if name not in self.blocks.arms]:
            raise ValueError(f"predictions: '{unknown[0]}' is no arm; there is: {', '.join(self.blocks.arms)}")
        if without := [name for name in self.blocks.arms if name not in named]:
            raise ValueError(f"predictions: arm '{without[0]}' is missing; name it under single or mixed")
        return self

    @model_validator(mode="after")
    def every_prediction_is_made_alone(self) -> Self:
        """Heads are held against networks that predict one thing: the first of each under `single`."""
        made = {self.recipes[name].prediction for name in self.predictions.single}
        if gone := [head for head in HEADS if head not in made]:
            raise ValueError(f"predictions.single: no arm predicts '{gone[0]}'; heads are held against one that does")
        return self

    @model_validator(mode="after")
    def batches_fit(self) -> Self:
        """They are of arms, each of which sees some."""
        for name, size in self.predictions.batch_sizes.items():
            if name not in self.blocks.arms:
                raise ValueError(
                    f"predictions.batch_sizes: '{name}' is no arm; there is: {', '.join(self.blocks.arms)}"
                )
            if size > (images := self.recipes[name].images):
                raise ValueError(f"predictions.batch_sizes.{name}: {size}; recipes.{name} sees {images} images")
        return self

    @model_validator(mode="after")
    def every_period_has_a_step(self) -> Self:
        """Which head leads is counted in parts of a training."""
        for name in self.predictions.mixed:
            size = self.predictions.batch_size(name, self.training.batch_size)
            if (images := self.recipes[name].images) < (needed := PERIODS * size):
                raise ValueError(
                    f"recipes.{name}.images: {images}; three heads are compared over {PERIODS} periods of their "
                    f"training: at least {needed} with batches of {size}"
                )
        return self

    @model_validator(mode="after")
    def ranges_can_be_made(self) -> Self:
        """Each holds a timestep, and is scored by samples enough."""
        chosen, timesteps = self.predictions, self.schedule.timesteps
        if chosen.ranges > timesteps:
            raise ValueError(f"predictions.ranges: {chosen.ranges} of {timesteps} timesteps; at most as many")
        for least, what in (
            (self.extractor.features, "extractor.features"),
            (self.evaluation.kid_subset, "evaluation.kid_subset"),
        ):
            if chosen.samples < least and not (what.startswith("extractor") and self.evaluation.allow_singular):
                raise ValueError(f"predictions.samples: {chosen.samples}; at least {what}, {least}")
        return self
