"""`interference`: what training on some timesteps does to the others, by learning rate and by sampler."""

from typing import Self

from pydantic import Field, model_validator

from unequal.settings.names import Name
from unequal.settings.strict import Strict


class Interference(Strict):
    """Recipes that train the base on inside every slot, and the one that all samplers are held against."""

    slot_recipes: tuple[Name, ...] = Field(
        min_length=1, description="one a learning rate, `slot` among them; their models are <recipe>_<slot>"
    )
    control: Name = Field(description="the further recipe that draws timesteps uniformly")

    @model_validator(mode="after")
    def recipes_are_sound(self) -> Self:
        """Claims are about the pipeline's own recipe; the others stand beside it."""
        if "slot" not in self.slot_recipes or len(set(self.slot_recipes)) < len(self.slot_recipes):
            raise ValueError(f"slot_recipes: {list(self.slot_recipes)} must hold slot, and no name twice")
        for name in self.slot_recipes:
            if not name.startswith("slot") or name[-1].isdigit():
                raise ValueError(f"slot_recipes: '{name}' must begin with slot and not end in a number, like slot_low")
        return self
