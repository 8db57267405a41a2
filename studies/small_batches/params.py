"""The whole of the study's params.yaml."""

from typing import Self

from pydantic import model_validator

from studies.grid.params import Gridded
from studies.small_batches.settings import Gradients, SmallBatches
from unequal.settings.params.roles import CONTINUED, FRESH, Role
from unequal.settings.params.scored import Scored
from unequal.settings.params.slotted import Slotted


class Params(Gridded, Slotted, Scored):
    """All sections, and what holds of several of them."""

    gradients: Gradients
    small_batches: SmallBatches

    @property
    def grid_roles(self) -> dict[str, Role]:
        """The grid's recipes train the base on."""
        return dict.fromkeys(self.grid.recipes, CONTINUED)

    @property
    def roles(self) -> dict[str, Role]:
        """The base beside the grid's recipes."""
        return {"base": FRESH} | super().roles

    @model_validator(mode="after")
    def small_batches_have_a_grid(self) -> Self:
        """The baseline is one of the grid's recipes, trained at further batches; all see as many images."""
        for name in self.small_batches.baselines:
            if name not in self.grid.recipes:
                raise ValueError(f"small_batches.baselines: '{name}' is no recipe of the grid")
        for batch in self.small_batches.batches:
            if batch in self.grid.batches:
                raise ValueError(f"small_batches.batches: '{batch}' stands in grid.batches already")
        if len({self.recipes[name].images for name in self.grid.recipes}) > 1:
            raise ValueError("small_batches: recipes of the grid differ in images; they are compared at equal images")
        return self

    @model_validator(mode="after")
    def compared_samplers_are_built(self) -> Self:
        """Gradients are measured for samplers that a stage makes."""
        for name in self.gradients.samplers:
            if name not in self.grid.recipes:
                allowed = ", ".join(self.grid.recipes)
                raise ValueError(f"gradients.samplers: no sampler is made of '{name}'; allowed: {allowed}")
        return self
