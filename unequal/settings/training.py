"""`training`: what all training runs share."""

from typing import Literal, Self

from pydantic import Field, PositiveFloat, model_validator

from unequal.settings.average import Average
from unequal.settings.numbers import BatchSize, Interval
from unequal.settings.strict import Strict


class Training(Strict):
    """Batches, numerics, averaging and bookkeeping of the training loop."""

    batch_size: BatchSize = Field(description="images an optimizer step, over all processes")
    gradient_accumulation: BatchSize = Field(description="parts in which a batch goes through the network")
    gradient_clip: PositiveFloat | None = Field(description="largest gradient norm; null: no clipping")
    average: Average = Field(description="of the weights of all steps, which makes the model")
    horizontal_flips: bool
    precision: Literal["fp32", "bf16"]
    log_every: Interval = Field(description="steps between two lines of the log")
    checkpoint_every: Interval = Field(description="steps between two resumable states")

    @model_validator(mode="after")
    def batch_can_be_split(self) -> Self:
        """Every part of a batch holds at least one image."""
        if self.gradient_accumulation > self.batch_size:
            raise ValueError(
                f"gradient_accumulation: {self.gradient_accumulation} parts of a batch of {self.batch_size}"
            )
        return self
