"""`small_batches`: against what the samplers of a grid are held."""

from typing import Self

from pydantic import Field, model_validator

from unequal.settings.grid import parsed_batch
from unequal.settings.strict import Strict


class SmallBatches(Strict):
    """The baseline of all recipes, and the batches at which it alone is trained besides the grid's."""

    baselines: tuple[str, ...] = Field(min_length=1, max_length=1, description="the recipe that all are held against")
    batches: tuple[str, ...] = Field(min_length=1, description="of the baseline alone: accumulated ones, large ones")

    @model_validator(mode="after")
    def batches_can_be_read(self) -> Self:
        """They are written as the grid's are."""
        for batch in self.batches:
            parsed_batch(batch)
        return self
