"""How the arms of a league stand, and which came first."""

import numpy as np

from unequal.comparison.confirmation import First as ToldFirst
from unequal.comparison.confirmation import Named
from unequal.comparison.results import Found
from unequal.settings.recipe import Recipe


class Trained(Named):
    """An arm and the recipe that it was trained by."""

    recipe: Recipe


class First(ToldFirst[Trained]):
    """Both arms, and by which recipes they are trained once more."""


def standings(found: Found) -> list[tuple[str, float]]:
    """Arms with the geometric mean of their first endpoint, the best first; the repeated control is left out."""
    endpoint = next(iter(found.blocks.endpoints))
    arms = [arm for arm in found.blocks.arms if arm != found.blocks.repeated.arm]
    means = np.exp(found.logarithms(endpoint, arms).mean(1)).tolist()
    return sorted(zip(arms, means, strict=True), key=lambda one: one[1])


def first(found: Found) -> str:
    """The arm that stands first but for the control, which is trained again anyway."""
    return next(arm for arm, _ in standings(found) if arm != found.blocks.control)
