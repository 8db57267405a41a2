"""Which plan came first in the sweep, and by what it and the joint model are carried out once more."""

from unequal.comparison.confirmation import First as ToldFirst
from unequal.comparison.confirmation import Named
from unequal.comparison.results import Found
from unequal.comparison.settings import Endpoint
from unequal.settings.groups import Plan


class Planned(Named):
    """An arm and the plan that it was carried out by."""

    plan: Plan


class First(ToldFirst[Planned]):
    """Both arms, and by which plans they are trained once more."""


def first(found: Found, boundaries: set[str], endpoint: Endpoint) -> str:
    """The arm with a boundary whose endpoint is least, by its geometric mean over blocks."""
    arms = [arm for arm in found.blocks.arms if arm in boundaries]
    return arms[int(found.logarithms(endpoint, arms).mean(1).argmin())]
