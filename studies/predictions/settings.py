"""`predictions`: which arms have one head and which three, the batches of some, and what is tried of three heads."""

from typing import Self

from pydantic import Field, PositiveInt, model_validator

from unequal.comparison.settings import refuse_twice
from unequal.settings.strict import Strict
from unequal.settings.values import BatchSize, Name


class Predictions(Strict):
    """Arms that predict ε, v or x0 alone, arms of three heads, and how the heads of some are tried together."""

    single: tuple[Name, ...] = Field(min_length=1, description="arms of one head")
    mixed: tuple[Name, ...] = Field(min_length=1, description="arms of three heads")
    batch_sizes: dict[Name, BatchSize] = Field(
        default={}, description="images an optimizer step of arms that have not those of `training`"
    )
    tried: tuple[Name, ...] = Field(
        min_length=1, description="arms of three heads that are sampled with every combination of them"
    )
    ranges: PositiveInt = Field(description="of timesteps, alike in log-SNR, in which another head speaks for once")
    samples: PositiveInt = Field(description="images behind each FID of such a range")

    @model_validator(mode="after")
    def nothing_is_named_twice(self) -> Self:
        """Nothing is trained or tried twice."""
        refuse_twice("single and mixed", (*self.single, *self.mixed))
        refuse_twice("tried", self.tried)
        return self

    @model_validator(mode="after")
    def what_is_tried_has_three_heads(self) -> Self:
        """Of one head there is nothing to combine."""
        for name in self.tried:
            if name not in self.mixed:
                raise ValueError(f"tried: '{name}' has not three heads; those of mixed have: {', '.join(self.mixed)}")
        return self

    def batch_size(self, arm: str, otherwise: int) -> int:
        """Images an optimizer step of an arm."""
        return self.batch_sizes.get(arm, otherwise)
