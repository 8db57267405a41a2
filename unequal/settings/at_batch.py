"""Settings of an optimizer that mean the same in images at another batch."""

from unequal.settings.recipe import Optimizer


def at_batch(settings: Optimizer, ratio: float) -> Optimizer:
    """The optimizer whose second moment has the same half-life in images, where batches are `ratio` times as large.

    A coefficient β₂ forgets half in ln ½/ln β₂ steps; β₂^ratio does so in as many images. The first moment averages
    over some 1/(1 − β₁) steps at any batch, as is common: its horizon is short against what it follows.
    """
    first, second = settings.betas
    return settings.model_copy(update={"betas": (first, second**ratio)})
