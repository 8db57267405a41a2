"""`grid`: one training for every combination of recipe, batch and training seed."""

from typing import Literal, Self

from pydantic import Field, model_validator

from unequal.errors import UserError
from unequal.settings.strict import Strict
from unequal.settings.values import BatchName, BatchSize, Name, Seed


class Grid(Strict):
    """Trials that are compared at equal images seen."""

    recipes: tuple[Name, ...] = Field(min_length=1)
    batches: tuple[BatchName, ...] = Field(
        min_length=1, description="images at once × parts accumulated before an optimizer step, as in 8x4"
    )
    seeds: tuple[Seed, ...] = Field(min_length=1, description="of weights, batches and noise; not of the data")
    reference_batch: BatchSize = Field(
        description="the batch for which recipes' lr and an exponential average are meant"
    )
    lr_scaling: Literal["none", "sqrt", "linear"] = Field(description="how lr follows the batch of an optimizer step")

    @model_validator(mode="after")
    def axes_are_sound(self) -> Self:
        """Nothing is trained twice."""
        for axis in ("recipes", "batches", "seeds"):
            values = getattr(self, axis)
            if len(set(values)) < len(values):
                raise ValueError(f"{axis}: {list(values)} names one twice")
        return self


def trial_name(recipe: str, batch: str, seed: int) -> str:
    """The name of a trial's model below artifacts/models."""
    return f"{recipe}/batch_{batch}/seed_{seed}"


def parsed_batch(text: str) -> tuple[int, int]:
    """Images at once and accumulated parts of a batch like `8x4`. Raises UserError where it is not written so."""
    try:
        size, parts = map(int, text.split("x"))
    except ValueError:
        raise UserError(f"batch '{text}': no images at once × parts accumulated, as in 8x4 or 32x1") from None
    return size, parts
