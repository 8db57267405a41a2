"""`gradients`: measuring them over the timesteps; `small_batches`: against what the samplers of a grid are held."""

from typing import Self

from pydantic import Field, model_validator

from unequal.settings.names import BatchName, Name
from unequal.settings.numbers import BatchSize, DrawCount
from unequal.settings.strict import Strict


class Gradients(Strict):
    """How many images stand behind the moments of gradients, and for which samplers and batches they are used."""

    parts: int = Field(
        gt=0, le=10_000, description="cells that each slot is cut into; moments are constant within a cell"
    )
    folds: int = Field(ge=3, le=10_000, description="parts of the images, from which standard errors are made")
    single_images: DrawCount = Field(description="a cell, for lengths of single gradients; a multiple of folds")
    mean_images: DrawCount = Field(description="a cell, for its mean gradient; a multiple of folds")
    batches: tuple[BatchSize, ...] = Field(min_length=1, description="images of an optimizer step")
    samplers: tuple[Name, ...] = Field(min_length=1, description="recipes whose samplers are compared")

    @model_validator(mode="after")
    def folds_are_alike(self) -> Self:
        """Each fold holds as many images of a cell."""
        for field in ("single_images", "mean_images"):
            if getattr(self, field) % self.folds:
                raise ValueError(f"{field}: {getattr(self, field)} is no multiple of the {self.folds} folds")
        return self


class SmallBatches(Strict):
    """The baseline of all recipes, and the batches at which it alone is trained besides the grid's."""

    baselines: tuple[Name, ...] = Field(min_length=1, max_length=1, description="the recipe that all are held against")
    batches: tuple[BatchName, ...] = Field(
        min_length=1, description="of the baseline alone: accumulated ones, large ones"
    )
