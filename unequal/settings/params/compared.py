"""Params files that set variants beside each other."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from unequal.settings.names import Name
from unequal.settings.params.core import check_models
from unequal.settings.params.scored import Scored


class Compared(Scored):
    """Variants are scored from the same noise: single models, and sets of experts."""

    variants: Annotated[
        tuple[Name, ...],
        Field(description="models and sets of experts that are scored, each an instance; the base among them"),
    ]

    @property
    def samples_three_heads(self) -> bool:
        """A recipe's model has its name."""
        return any(name in self.roles and self.roles[name].mixed for name in self.variants)

    @model_validator(mode="after")
    def variants_are_trained(self) -> Self:
        """What is scored is also trained."""
        check_models("variants", self.variants, (*self.trained_models, *self.expert_sets))
        return self
