"""The whole of the study's params.yaml."""

from typing import Self

from pydantic import model_validator

from studies.interference.settings import Interference
from unequal.settings.params.continued import Continued
from unequal.settings.params.roles import FRESH, INSIDE_A_RANGE, Role
from unequal.settings.params.slotted import Slotted


class Params(Continued, Slotted):
    """All sections, and what holds of several of them."""

    interference: Interference

    @property
    def roles(self) -> dict[str, Role]:
        """The base, recipes that train it on inside one slot, and further ones, on all timesteps."""
        inside = dict.fromkeys(self.interference.slot_recipes, INSIDE_A_RANGE)
        return {"base": FRESH} | inside | super().roles

    @model_validator(mode="after")
    def interference_can_be_told(self) -> Self:
        """There are slots to interfere, models to compare, and uniform timesteps to hold them against."""
        control = self.interference.control
        if self.slots.count < 2:
            raise ValueError("interference: needs slots.count: 2 or more")
        if control not in self.further_recipes or self.recipes[control].sampler.kind != "uniform":
            raise ValueError(f"interference.control: '{control}' is no further recipe with sampler.kind: uniform")
        for name in self.further_recipes:
            if name not in self.profiled_models:
                raise ValueError(f"profiled_models: lacks '{name}', which interference compares with the base")
        return self
