"""Verdicts on estimates, by rules that treat both directions equally."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from unequal.statistics.estimates import Estimate

NOT_TESTABLE, SAME, BETTER, WORSE, UNDECIDED = "not testable", "the same", "better", "worse", "undecided"
#: Largest share of studies in which a family of comparisons makes a false claim.
LEVEL = 0.05


@dataclass(frozen=True)
class Verdict:
    """Verdict on one planned comparison, by an endpoint of which lower is better.

    Attributes:
        word: `not testable`, `the same` (within δ), `better`, `worse` or `undecided`.
        change: relative difference of the endpoint, e^d − 1.
        low, high: 95 % interval of `change`, for this comparison alone.
        p_difference: Holm's p for "they differ".
        p_same: Holm's p for "they differ by less than δ".
    """

    word: str
    change: float
    low: float
    high: float
    p_difference: float
    p_same: float


def judge(
    estimates: Sequence[Estimate], delta: float, visible: Sequence[float] = (), needed: float | None = None
) -> list[Verdict]:
    """Judge all planned comparisons of a study together.

    Verdicts are tried in this order:

    - *not testable*: the study cannot detect the needed effect, and the difference is smaller than what it detects;
    - *the same*: both one-sided tests reject |d| ≥ δ;
    - *better* or *worse*: the test rejects d = 0;
    - *undecided*: otherwise.

    Each kind of test has Holm's correction over all comparisons.

    Args:
        estimates: differences in ln(endpoint), variant less control, one per planned comparison.
        delta: δ above 0, in ln(endpoint), set before the study runs.
        visible: for each comparison, the smallest effect in ln(endpoint) that the study detects in four of five cases;
            empty: every difference is judged.
        needed: the effect in ln(endpoint) that must be detectable, or smaller differences than `visible` are not
            judged; None: δ.
    """
    different = holm([two_sided(one) for one in estimates])
    same = holm([equivalence(one, delta) for one in estimates])
    bounds, asked = visible or [0.0] * len(estimates), needed or delta
    return [
        Verdict(
            word(one, p, q) if bound <= max(asked, abs(one.difference)) else NOT_TESTABLE,
            float(np.expm1(one.difference)),
            *interval(one),
            p,
            q,
        )
        for one, p, q, bound in zip(estimates, different, same, bounds, strict=True)
    ]


def word(estimate: Estimate, p_difference: float, p_same: float, level: float = LEVEL) -> str:
    """Verdict of the tests on one comparison."""
    if p_same < level:
        return SAME
    if p_difference < level:
        return BETTER if estimate.difference < 0 else WORSE
    return UNDECIDED


def interval(estimate: Estimate) -> tuple[float, float]:
    """95 % interval of the endpoint's relative difference, for one comparison alone."""
    half = float(stdtrit(estimate.freedom, 1 - LEVEL / 2)) * estimate.error
    low, high = np.expm1([estimate.difference - half, estimate.difference + half]).tolist()
    return low, high


def two_sided(estimate: Estimate) -> float:
    """Two-sided p of a difference at least this large if the true difference is zero."""
    if estimate.error == 0:
        return 0.0 if estimate.difference else 1.0
    return 2 * float(stdtr(estimate.freedom, -abs(estimate.difference) / estimate.error))


def equivalence(estimate: Estimate, delta: float) -> float:
    """Larger p of the two one-sided tests against d ≤ −δ and d ≥ δ."""
    if estimate.error == 0:
        return 0.0 if abs(estimate.difference) < delta else 1.0
    return float(stdtr(estimate.freedom, (abs(estimate.difference) - delta) / estimate.error))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values: the smallest times m, the next times m − 1, and so on, nondecreasing, at most 1."""
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p)
    adjusted = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)).clip(max=1)
    ordered = np.empty_like(p)
    ordered[order] = adjusted
    return ordered.tolist()
