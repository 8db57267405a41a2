"""Params files whose models are sampled, scored and compared."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from unequal.settings.evaluation import Evaluation, Extractor, Sampling
from unequal.settings.names import Name
from unequal.settings.whole.core import Core, check_models


class Sampled(Core):
    """Models make pictures."""

    sampling: Sampling

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
    def learned_variance_is_there(self) -> Self:
        """Only models that have learned a variance are sampled with it; three heads learn none."""
        if self.sampling.variance != "learned":
            return self
        if self.network.variance != "learned":
            raise ValueError("sampling.variance: 'learned' needs network.variance: learned")
        if self.samples_three_heads:
            raise ValueError("sampling.variance: 'learned'; mixed models have learned none; allowed: posterior")
        return self


class Scored(Sampled):
    """Samples are scored by FID."""

    extractor: Extractor
    evaluation: Evaluation

    @model_validator(mode="after")
    def samples_are_enough(self) -> Self:
        """FID needs a covariance of full rank."""
        evaluation, features = self.evaluation, self.extractor.features
        if evaluation.samples < features and not evaluation.allow_singular:
            raise ValueError(
                f"evaluation.samples: {evaluation.samples} is fewer than extractor.features {features}, which makes "
                "the covariance singular; raise it or set evaluation.allow_singular: true"
            )
        return self


class Compared(Scored):
    """Variants are scored from the same noise: single models, and sets of experts."""

    variants: Annotated[
        tuple[Name, ...],
        Field(description="models and sets of experts that are scored, each an instance; the base among them"),
    ]

    @property
    def expert_sets(self) -> tuple[str, ...]:
        """Names of the sets of experts that stages make."""
        return ()

    @property
    def samples_three_heads(self) -> bool:
        """A recipe's model has its name."""
        return any(name in self.roles and self.roles[name].mixed for name in self.variants)

    @model_validator(mode="after")
    def variants_are_trained(self) -> Self:
        """What is scored is also trained."""
        check_models("variants", self.variants, (*self.trained_models, *self.expert_sets))
        return self
