"""`grid`: one training for every combination of recipe, batch and training seed."""

import re
from typing import Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from unequal.settings.strict import Strict


class Grid(Strict):
    """Trials that are compared at equal images seen."""

    recipes: tuple[str, ...] = Field(min_length=1)
    batches: tuple[str, ...] = Field(
        min_length=1, description="images at once × parts accumulated before an optimizer step, as in 8x4"
    )
    seeds: tuple[NonNegativeInt, ...] = Field(
        min_length=1, description="of weights, batches and noise; not of the data"
    )
    reference_batch: PositiveInt = Field(description="the batch for which recipes' lr and training.ema_decay are meant")
    lr_scaling: Literal["none", "sqrt", "linear"] = Field(description="how lr follows the batch of an optimizer step")

    @model_validator(mode="after")
    def axes_are_sound(self) -> Self:
        """Every batch can be read, and nothing is trained twice."""
        for batch in self.batches:
            parsed_batch(batch)
        for axis in ("recipes", "batches", "seeds"):
            values = getattr(self, axis)
            if len(set(values)) < len(values):
                raise ValueError(f"{axis}: {list(values)} names one twice")
        return self


def trial_name(recipe: str, batch: str, seed: int) -> str:
    """The name of a trial's model below artifacts/models."""
    return f"{recipe}/batch_{batch}/seed_{seed}"


def parsed_batch(text: str) -> tuple[int, int]:
    """Images at once and accumulated parts of a batch like `8x4`. Raises ValueError."""
    match = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", text)
    if match is None:
        raise ValueError(f"batch '{text}' must be written as images at once × parts accumulated, as in 8x4 or 32x1")
    return int(match[1]), int(match[2])
