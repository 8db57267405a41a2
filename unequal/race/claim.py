"""The one claim of a race: its winner against the control on fresh seeds, in two looks; and what it is worth."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from unequal.race.standing import Scatter
from unequal.statistics.estimates import Estimate
from unequal.statistics.power import POWER
from unequal.statistics.verdicts import BETTER, SAME, UNDECIDED, WORSE, equivalence, two_sided, word

#: Level of each look, two-sided: two looks claim a difference that is not there in 4.1 % of races.
LOOK = 0.025


class Claim(NamedTuple):
    """Verdict on the winner against the control.

    Attributes:
        word: `better`, `worse`, `the same` (within δ) or `undecided`.
        estimate: difference in ln(FID), its error and degrees of freedom; none where no pair is whole.
        low, high: interval of the difference at the level of a look.
        blocks: pairs behind it.
        visible: the difference that so many blocks show in four of five races.
        collapsed: fresh trainings of the winner, and of the control, that have collapsed.
    """

    word: str
    estimate: Estimate | None
    low: float
    high: float
    blocks: int
    visible: float
    collapsed: tuple[int, int]


def look(pairs: Sequence[tuple[float, float]], scatter: Scatter, delta: float) -> Claim:
    """Judge the pairs that are there.

    The variance is pooled from the trainings of all whole rungs and these pairs. A winner that has collapsed in a fresh
    block is never called better.

    Args:
        pairs: ln(FID) of winner and control in each fresh block; ∞ where a training has collapsed.
        scatter: of the whole rungs.
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
    """The difference in ln(FID) that a look at so many blocks shows in four of five races."""
    quantiles = stdtrit(scatter.freedom, 1 - LOOK / 2) + stdtrit(scatter.freedom, POWER)
    return float(quantiles * np.sqrt(2 * scatter.variance / blocks))


class Slope(NamedTuple):
    """Fall of the control's ln(FID) with ln(images), between its short and its whole trainings, and its error."""

    fall: float
    error: float

    @classmethod
    def between(cls, short: Sequence[float], whole: Sequence[float], share: float, variance: float) -> "Slope | None":
        """The slope from results at a share of the images and at all; None where FID does not fall."""
        if not short or not whole or not np.isfinite([*short, *whole]).all():
            return None
        distance = float(np.log(1 / share))
        fall = (float(np.mean(short)) - float(np.mean(whole))) / distance
        error = float(np.sqrt(variance / len(short) + variance / len(whole))) / distance
        return cls(fall, error) if fall > 0 else None


def worth(difference: float, slope: Slope) -> float:
    """Images of the control that reach the same FID, as a multiple of the winner's."""
    return float(np.exp(-difference / slope.fall))


def pays_from(cost: float, multiple: float) -> float | None:
    """Length of a final training from which on a race of this cost pays, in the unit of the cost; None: never."""
    return cost / (multiple - 1) if multiple > 1 else None
