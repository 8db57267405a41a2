"""Params files of studies that train a grid."""

from typing import Self

from pydantic import model_validator

from studies.grid.settings import Grid, parsed_batch
from unequal.settings.params.core import FRESH, Core, Role


class Gridded(Core):
    """Every recipe of the grid is trained at every batch from every seed."""

    grid: Grid

    @property
    def grid_roles(self) -> dict[str, Role]:
        """What the recipes are for that are trained with every seed; from fresh weights, if a study says nothing."""
        return dict.fromkeys(self.grid.recipes, FRESH)

    @property
    def roles(self) -> dict[str, Role]:
        """The grid's recipes beside the others."""
        return super().roles | self.grid_roles

    @property
    def with_other_batches(self) -> set[str]:
        """Those of the grid have batches of their own."""
        return {f"recipes.{name}" for name in self.grid_roles}

    @model_validator(mode="after")
    def fresh_weights_are_asked_for(self) -> Self:
        """A trained network takes the place of a base alone."""
        fresh = [name for name, role in self.grid_roles.items() if role.start == "fresh"]
        if self.network.pretrained is not None and fresh:
            raise ValueError(
                f"network.pretrained: '{self.network.pretrained}'; recipe '{fresh[0]}' of the grid starts from fresh "
                "weights: null"
            )
        return self

    @model_validator(mode="after")
    def batches_of_a_grid_can_be_trained(self) -> Self:
        """Found out here, and not at the first trial."""
        for batch in self.grid.batches:
            size, parts = parsed_batch(batch)
            for name in self.grid_roles:
                if size * parts > self.recipes[name].images:
                    raise ValueError(
                        f"grid.batches: '{batch}' is a batch of {size * parts}, recipe '{name}' sees "
                        f"{self.recipes[name].images} images in all"
                    )
        return self
