"""Params files whose models' samples are scored."""

from typing import Self

from pydantic import model_validator

from unequal.settings.evaluation import Evaluation, Extractor
from unequal.settings.params.sampled import AnySampled, Sampled


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

    @model_validator(mode="after")
    def guidance_is_scored_without_labels(self) -> Self:
        """Features that were learned by labels see guidance by labels as quality."""
        return self if self.sampling.guidance is None else scorable(self)


def scorable(params: AnySampled) -> AnySampled:
    """The same params. Raises ValueError where the features of FID come from the labels."""
    if isinstance(params, Scored) and params.extractor.kind == "classifier":
        raise ValueError(
            "sampling.guidance: cannot be scored by extractor.kind 'classifier', whose features know the labels; "
            "allowed: null, or inception or dinov2"
        )
    return params
