"""Smallest effect that a study detects in four of five cases, by the scatter of its pilot or of its own trainings."""

from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.stats import chi2
from scipy.stats import t as student_t

from unequal.statistics.estimates import contrast
from unequal.statistics.verdicts import LEVEL

POWER = 0.8
#: Number of simulated studies per estimate, and their seed, which makes the estimate reproducible.
STUDIES, SEED = 20_000, 0


class Design(NamedTuple):
    """A study: A variants in B blocks; m comparisons of a variant with a control are judged together."""

    arms: int
    blocks: int
    comparisons: int

    @property
    def freedom(self) -> int:
        return (self.arms - 1) * (self.blocks - 1)


def upper_deviation(deviation: float, freedom: int) -> float:
    """Upper bound (80 %) of a pilot's standard deviation: s·√(ν/χ²_{0.2,ν}); 2.1·s at ν = 2, 1.4·s at ν = 6."""
    return float(deviation * np.sqrt(freedom / chi2.ppf(1 - POWER, freedom)))


def visible_effect(plan: Design, deviation: float) -> float:
    """Effect in ln(endpoint) that a study detects in 80 % of cases, for trainings of this standard deviation.

    The simulation uses the errors by which studies are judged (`contrast`) and Holm's first step for m comparisons; one
    variant has the effect.
    """
    return deviation * unit_effect(plan)


@cache
def unit_effect(plan: Design) -> float:
    """Detectable effect for trainings of standard deviation 1, to one per cent."""
    generator = np.random.default_rng(SEED)
    # The first variant against the second, where no variant has an effect.
    differences, errors = contrast(generator.normal(size=(STUDIES, plan.arms, plan.blocks)), 0, 1)
    threshold = student_t.ppf(1 - LEVEL / 2 / plan.comparisons, plan.freedom)
    # A study detects the effect where |d + effect| exceeds the threshold, that is, as the effect rises, where
    # d > threshold·error − effect.
    return float(np.quantile(threshold * errors - differences, POWER))
