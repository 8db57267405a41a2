"""Params files whose models are sampled."""

from typing import Self, TypeVar

from pydantic import model_validator

from unequal.settings.condition import DroppedLabels
from unequal.settings.evaluation import BY_PROFILE, Sampling
from unequal.settings.params.core import Core

AnySampled = TypeVar("AnySampled", bound="Sampled")


class Sampled(Core):
    """Models make pictures."""

    sampling: Sampling

    @property
    def spaced_by_profile(self) -> bool:
        """Whether the base's losses are known where models are sampled."""
        return False

    @property
    def samples_three_heads(self) -> bool:
        """Whether a model of three heads is among those that are sampled."""
        return False

    @model_validator(mode="after")
    def sampling_fits_the_schedule(self) -> Self:
        """Sampling asks for timesteps that there are."""
        timesteps, steps = self.schedule.timesteps, self.sampling.steps
        if isinstance(steps, int) and steps > timesteps:
            raise ValueError(f"sampling.steps: {steps} steps of {timesteps} timesteps; at most schedule.timesteps")
        if isinstance(steps, tuple) and steps[0] >= timesteps:
            raise ValueError(f"sampling.steps: {steps[0]} reaches beyond the last timestep {timesteps - 1}")
        return self

    @model_validator(mode="after")
    def spacing_has_its_profile(self) -> Self:
        """Only some stages that sample have read one."""
        if self.sampling.spacing in BY_PROFILE and not self.spaced_by_profile:
            raise ValueError(
                f"sampling.spacing: '{self.sampling.spacing}'; no loss profile is at hand where this file's models are "
                "sampled"
            )
        return self

    @model_validator(mode="after")
    def learned_variance_is_there(self) -> Self:
        """Only models that have learned a variance are sampled with it; three heads learn none."""
        if self.sampling.variance != "learned":
            return self
        if self.network.variance != "learned":
            raise ValueError("sampling.variance: 'learned' needs network.variance: learned")
        if self.samples_three_heads:
            raise ValueError("sampling.variance: 'learned'; mixed models have learned none; allowed: posterior")
        return self

    @model_validator(mode="after")
    def guidance_has_its_labels(self) -> Self:
        """Only a model that has also learned without labels is guided by them."""
        return self if self.sampling.guidance is None else guidable(self)


def guidable(params: AnySampled) -> AnySampled:
    """The same params. Raises ValueError where models have learned no answers without labels."""
    if not isinstance(condition := params.network.condition, DroppedLabels):
        raise ValueError(
            f"sampling.guidance: needs a model that has learned without labels too, not {condition.title}; "
            "allowed: null, or network.condition.kind dropped_labels"
        )
    return params
