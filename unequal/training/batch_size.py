"""Optimizers and averages at another batch size: what they remember stays the same in images."""

from unequal.settings.recipe import Optimizer
from unequal.settings.training import Average, ExponentialAverage


def optimizer_at_batch(settings: Optimizer, ratio: float) -> Optimizer:
    """The optimizer whose second moment has the same half-life in images, where batches are `ratio` times as large.

    A coefficient β₂ forgets half in ln ½/ln β₂ steps; β₂^ratio does so in as many images. The first moment averages
    over some 1/(1 − β₁) steps at any batch, as is common: its horizon is short against what it follows.
    """
    first, second = settings.betas
    return settings.model_copy(update={"betas": (first, second**ratio)})


def average_at_batch(settings: Average, ratio: float) -> Average:
    """The average with the same horizon in images; a share of the training is the same share at any batch."""
    if not isinstance(settings, ExponentialAverage):
        return settings
    return settings.model_copy(update={"decay": settings.decay**ratio})
