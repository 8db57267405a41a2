"""Claim of a race: its winner against the control on fresh seeds, in at most two looks, and its worth in images."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from unequal.race.standing import Scatter
from unequal.statistics.estimates import Estimate
from unequal.statistics.power import POWER
from unequal.statistics.verdicts import BETTER, SAME, UNDECIDED, WORSE, equivalence, two_sided, word

#: Two-sided level of each look: with two looks, 4.1 % of races claim a difference where there is none.
LOOK = 0.025


class Claim(NamedTuple):
    """Verdict on the winner against the control.

    Attributes:
        word: `better`, `worse`, `the same` (within δ) or `undecided`.
        estimate: difference in ln(FID), its error and degrees of freedom; None where it cannot be estimated.
        low, high: interval of the difference in ln(FID), at the level of a look.
        blocks: number of pairs without a collapsed training.
        visible: difference in ln(FID) that this number of blocks detects in four of five races.
        collapsed: numbers of collapsed fresh trainings of the winner and of the control.
    """

    word: str
    estimate: Estimate | None
    low: float
    high: float
    blocks: int
    visible: float
    collapsed: tuple[int, int]


def look(pairs: Sequence[tuple[float, float]], scatter: Scatter, delta: float) -> Claim:
    """Judge the available pairs.

    The variance is pooled from the trainings of all whole rungs and these pairs. A winner that collapses in a fresh
    block is never called better.

    Args:
        pairs: ln(FID) of winner and control in each fresh block; ∞ where a training has collapsed.
        scatter: scatter of the whole rungs.
        delta: δ in ln(FID).
    """
    winners, controls = (sum(not np.isfinite(pair[place]) for pair in pairs) for place in (0, 1))
    collapsed = winners, controls
    differences = np.array([winner - control for winner, control in pairs if np.isfinite([winner, control]).all()])
    pooled = scatter
    if len(differences) > 1:
        own = float(((differences - differences.mean()) ** 2).sum() / 2)
        pooled = scatter.plus(Scatter(own, len(differences) - 1))
    if not len(differences) or not pooled.freedom:
        found = WORSE if collapsed[0] > collapsed[1] else UNDECIDED
        return Claim(found, None, -np.inf, np.inf, len(differences), np.inf, collapsed)
    error = float(np.sqrt(2 * pooled.variance / len(differences)))
    estimate = Estimate(float(differences.mean()), error, pooled.freedom)
    found = word(estimate, two_sided(estimate), equivalence(estimate, delta), LOOK)
    if collapsed[0] and found in (BETTER, SAME):
        found = WORSE if collapsed[0] > collapsed[1] else UNDECIDED
    half = float(stdtrit(pooled.freedom, 1 - LOOK / 2)) * error
    return Claim(
        found,
        estimate,
        estimate.difference - half,
        estimate.difference + half,
        len(differences),
        visible(pooled, len(differences)),
        collapsed,
    )


def visible(scatter: Scatter, blocks: int) -> float:
    """Difference in ln(FID) that a look at this number of blocks detects in four of five races."""
    quantiles = stdtrit(scatter.freedom, 1 - LOOK / 2) + stdtrit(scatter.freedom, POWER)
    return float(quantiles * np.sqrt(2 * scatter.variance / blocks))


class Slope(NamedTuple):
    """Fall of the control's ln(FID) per unit of ln(images), from short to whole trainings, and its standard error."""

    fall: float
    error: float

    @classmethod
    def between(cls, short: Sequence[float], whole: Sequence[float], share: float, variance: float) -> "Slope | None":
        """Estimate the slope from ln(FID) at a share of the images and at all images; None where FID does not fall."""
        if not short or not whole or not np.isfinite([*short, *whole]).all():
            return None
        distance = float(np.log(1 / share))
        fall = (float(np.mean(short)) - float(np.mean(whole))) / distance
        error = float(np.sqrt(variance / len(short) + variance / len(whole))) / distance
        return cls(fall, error) if fall > 0 else None


def worth(difference: float, slope: Slope) -> float:
    """Images with which the control reaches the winner's FID, as a multiple of the winner's images."""
    return float(np.exp(-difference / slope.fall))


def pays_from(cost: float, multiple: float) -> float | None:
    """Least length of a final training for which a race of this cost pays, in the cost's unit; None: never."""
    return cost / (multiple - 1) if multiple > 1 else None
