"""`slots`: contiguous ranges of timesteps with equal sums of loss."""

from typing import Literal, Self

from pydantic import Field, PositiveInt, model_validator

from unequal.settings.strict import Strict


class Slots(Strict):
    """How many slots, made of which loss, and which of them are fine-tuned."""

    count: PositiveInt
    loss: Literal["total", "excess"] = Field(description="of the profile, or of what it exceeds the floor by")
    finetune: tuple[PositiveInt, ...] = Field(default=(), description="slots counted from 1, as the paper does")

    @model_validator(mode="after")
    def chosen_slots_exist(self) -> Self:
        """Chosen slots lie in 1 … count, each once."""
        for slot in self.finetune:
            if slot > self.count:
                raise ValueError(f"finetune: {slot} is no slot; allowed: 1 … {self.count}")
        if len(set(self.finetune)) < len(self.finetune):
            raise ValueError(f"finetune: {list(self.finetune)} names a slot twice")
        return self
