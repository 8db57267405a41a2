"""`predictions`: three heads on one network, against one prediction alone."""

from typing import Self

from pydantic import Field, model_validator

from unequal.settings.names import Name
from unequal.settings.recipe import Selection
from unequal.settings.strict import Strict


class Predictions(Strict):
    """Mixed recipes of a grid, whose other recipes predict ε, v or x0 alone, and how heads are combined."""

    mixed: tuple[Name, ...] = Field(min_length=1, description="recipes of three heads, each trained with every seed")
    selections: tuple[Selection, ...] = Field(
        min_length=1, description="ways to combine the heads, each scored without training anew"
    )

    @model_validator(mode="after")
    def lists_name_nothing_twice(self) -> Self:
        """Nothing is trained or scored twice."""
        for field in ("mixed", "selections"):
            values = getattr(self, field)
            if len(set(values)) < len(values):
                raise ValueError(f"{field}: {list(values)} names one twice")
        return self
