"""Params files with a profile of the loss of every timestep."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from unequal.settings.condition import Unconditional
from unequal.settings.names import Name
from unequal.settings.params.core import Core, check_models
from unequal.settings.profile import Profile


class Profiled(Core):
    """Losses of models and of sets of experts are measured at every timestep."""

    profile: Profile
    profiled_models: Annotated[
        tuple[Name, ...],
        Field(description="models and sets of experts that are profiled, each an instance; the base among them"),
    ]

    @property
    def profiled_images(self) -> int:
        """Of the training images, as of the held-out ones."""
        return self.profile.images

    @property
    def has_floor(self) -> bool:
        """Whether the least possible loss is profiled too."""
        return self.profile.floor != "none"

    @model_validator(mode="after")
    def profiled_models_are_trained(self) -> Self:
        """What is profiled is also trained."""
        check_models("profiled_models", self.profiled_models, (*self.trained_models, *self.expert_sets))
        return self

    @model_validator(mode="after")
    def floor_is_known(self) -> Self:
        """The best denoiser is known in closed form where a network sees x_t alone."""
        condition = self.network.condition
        if not isinstance(condition, Unconditional) and self.has_floor:
            raise ValueError(
                f"profile.floor: {self.profile.floor} would be the least loss of a network that sees x_t alone; "
                f"allowed for {condition.title}: none"
            )
        return self
