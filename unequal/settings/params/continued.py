"""Params files with recipes that train the base on."""

from typing import Annotated

from pydantic import Field, field_validator

from unequal.settings.names import Name
from unequal.settings.params.core import Core
from unequal.settings.params.roles import CONTINUED, Role

#: Models that stages of the pipeline make under names of their own, and beginnings of such names.
TAKEN, TAKEN_BEGINNINGS = ("base", "slot", "mixed", "expert", "merged"), ("slot_", "experts_", "group_")


class Continued(Core):
    """Further recipes are held against the base at equal compute."""

    further_recipes: Annotated[
        tuple[Name, ...], Field(min_length=1, description="recipes trained on from the base, each an instance")
    ]

    @property
    def roles(self) -> dict[str, Role]:
        """Further recipes beside the others."""
        return super().roles | dict.fromkeys(self.further_recipes, CONTINUED)

    @property
    def trained_models(self) -> tuple[str, ...]:
        """A further recipe's model has its name."""
        return (*super().trained_models, *self.further_recipes)

    @field_validator("further_recipes")
    @classmethod
    def recipes_have_names_of_their_own(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        """A further recipe's name becomes a model's and a folder's."""
        for name in names:
            if name in TAKEN or name.startswith(TAKEN_BEGINNINGS):
                raise ValueError(f"'{name}' is the name of another stage's model")
        if len(set(names)) < len(names):
            raise ValueError(f"{list(names)} names a recipe twice")
        return names
