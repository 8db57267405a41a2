"""`experts`: which plans are carried out, from which seeds, and which questions they answer."""

from typing import Self

from pydantic import Field, model_validator

from unequal.settings.names import Name, PlanName
from unequal.settings.numbers import Seed
from unequal.settings.strict import Strict


class Experts(Strict):
    """The plans that are carried out, each from every training seed.

    What stands before the slash of a plan's name is the question that it helps to answer; those of `shared` help all.
    """

    questions: tuple[Name, ...] = Field(min_length=1, description="each with a report of its own")
    plans: tuple[PlanName, ...] = Field(min_length=1, description="names under `plans`, each an instance")
    seeds: tuple[Seed, ...] = Field(
        min_length=1, description="of pruning, fresh weights, batches and noise; not of the data, nor of the base"
    )

    @model_validator(mode="after")
    def nothing_is_made_twice(self) -> Self:
        """A plan and a seed name a folder."""
        for axis in ("questions", "plans", "seeds"):
            values = getattr(self, axis)
            if len(set(values)) < len(values):
                raise ValueError(f"{axis}: {list(values)} names one twice")
        return self
