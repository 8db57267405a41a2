"""The whole of a params.yaml of the study."""

from typing import Self

from pydantic import model_validator

from unequal.comparison.params import Recipes
from unequal.comparison.settings import Confirmation


class Params(Recipes):
    """Every arm is a recipe from the fresh weights of its block, and all are held against one control."""

    confirmation: Confirmation

    @model_validator(mode="after")
    def arms_have_one_control(self) -> Self:
        """By it they are ranked."""
        if (control := self.blocks.control) is None:
            raise ValueError("blocks.control: null; allowed: the arm that all others are held against")
        if self.blocks.repeated.control != control:
            raise ValueError(f"blocks.repeated.control: '{self.blocks.repeated.control}'; allowed: '{control}'")
        return self

    @model_validator(mode="after")
    def arms_see_as_many_images(self) -> Self:
        """A league is of equal budgets."""
        images = self.recipes[self.blocks.repeated.control].images
        for arm in self.blocks.arms:
            if self.recipes[arm].images != images:
                raise ValueError(f"recipes.{arm}.images: {self.recipes[arm].images}; allowed: {images}, as all others")
        return self

    @model_validator(mode="after")
    def seeds_are_fresh(self) -> Self:
        """What they confirm was found on others."""
        self.confirmation.check(self.blocks, self.pilot)
        return self
