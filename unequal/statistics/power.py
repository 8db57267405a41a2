"""The smallest effect that a study detects in four of five cases, by the scatter of its pilot or its own trainings."""

from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.stats import chi2
from scipy.stats import t as student_t

from unequal.statistics.estimates import contrast
from unequal.statistics.verdicts import LEVEL

POWER = 0.8
#: Simulated studies behind a promise, and their seed: the same promise results every time.
STUDIES, SEED = 20_000, 0


class Design(NamedTuple):
    """A study: A arms in B blocks, of which m comparisons of an arm with a control are judged together."""

    arms: int
    blocks: int
    comparisons: int

    @property
    def freedom(self) -> int:
        return (self.arms - 1) * (self.blocks - 1)


def upper_deviation(deviation: float, freedom: int) -> float:
    """The 80 % upper bound s_u of a pilot's standard deviation: s·√(ν/χ²_{0.2,ν}); 2.1·s at ν = 2, 1.4·s at 6."""
    return float(deviation * np.sqrt(freedom / chi2.ppf(1 - POWER, freedom)))


def visible_effect(plan: Design, deviation: float) -> float:
    """The effect in ln(endpoint) that a study finds in 80 % of cases, for trainings of this standard deviation.

    Simulated with the very errors by which studies are judged (`contrast`), Holm's first step for m
    comparisons; one arm has the effect.
    """
    return deviation * unit_effect(plan)


@cache
def unit_effect(plan: Design) -> float:
    """The visible effect for trainings of standard deviation 1, to a per cent."""
    generator = np.random.default_rng(SEED)
    # The first arm against the second, where no arm has an effect.
    differences, errors = contrast(generator.normal(size=(STUDIES, plan.arms, plan.blocks)), 0, 1)
    threshold = student_t.ppf(1 - LEVEL / 2 / plan.comparisons, plan.freedom)
    # Found where |d + effect| exceeds the threshold: at a rising effect, the share of d above threshold·error − effect.
    return float(np.quantile(threshold * errors - differences, POWER))
