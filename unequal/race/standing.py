"""Judgement of a rung: which candidates go on, and how much trainings scatter.

A candidate is a variant at a learning rate. Its results are ln(FID) of completed trainings, one per block. All
candidates of a block share weights, draws and sampling noise. A collapsed training has the result ∞.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import stdtr

from unequal.statistics.estimates import residuals
from unequal.statistics.verdicts import LEVEL, holm


class Candidate(NamedTuple):
    """A variant, and the factor of its own learning rate."""

    arm: str
    rate: float


#: Candidate → block → ln(FID).
Results = Mapping[Candidate, Mapping[int, float]]


class Scatter(NamedTuple):
    """Squared residuals of trainings within blocks, and their degrees of freedom; sums over rungs add up."""

    squares: float = 0.0
    freedom: int = 0

    @property
    def variance(self) -> float:
        """Variance s² of a training; infinite without degrees of freedom."""
        return self.squares / self.freedom if self.freedom else np.inf

    def plus(self, other: "Scatter") -> "Scatter":
        """Pool this scatter with another."""
        return Scatter(self.squares + other.squares, self.freedom + other.freedom)


def scatter_of(results: Results) -> Scatter:
    """Scatter within the blocks that all candidates share, without candidates that have a collapsed training."""
    rows = [list(one.values()) for one in results.values() if np.isfinite(list(one.values())).all()]
    if len(rows) < 2 or len(rows[0]) < 2:
        return Scatter()
    values = np.array(rows)
    return Scatter(float((residuals(values) ** 2).sum()), (values.shape[0] - 1) * (values.shape[1] - 1))


def means(results: Results) -> dict[Candidate, float]:
    """Mean ln(FID) of each candidate, the best first; a candidate that collapses in any block comes last."""
    average = {one: sum(blocks.values()) / len(blocks) for one, blocks in results.items()}
    return dict(sorted(average.items(), key=lambda item: item[1]))


def best_of_arms(results: Results) -> dict[str, Candidate]:
    """Best candidate of each variant, the best variant first."""
    best: dict[str, Candidate] = {}
    for one in means(results):
        best.setdefault(one.arm, one)
    return best


def next_lower(rate: float, rates: Sequence[float]) -> list[float]:
    """Next lower learning rate, if any; the best rate falls with the length of a training."""
    return sorted(one for one in rates if one < rate)[-1:]


def going_on(results: Results, control: str, keep: int, delta: float, scatter: Scatter) -> list[str]:
    """Variants that go on, the best first: the best ones, and always the control.

    A seat stays empty where a variant has collapsed, or is worse than the best by more than δ under Holm's correction.

    Args:
        results: results of a rung.
        control: name of the control.
        keep: number of seats besides the control's.
        delta: δ in ln(FID).
        scatter: scatter of trainings in this rung.
    """
    best, average = best_of_arms(results), means(results)
    others = [arm for arm in best if arm != control and np.isfinite(average[best[arm]])][:keep]
    seated = [arm for arm in best if arm in others or arm == control]
    leader = best[seated[0]]
    tested = [arm for arm in others if best[arm] != leader]
    blocks = len(results[leader])
    error = np.sqrt(2 * scatter.variance / blocks)
    if not tested or not 0 < error < np.inf:
        return seated
    excess = [average[best[arm]] - average[leader] - delta for arm in tested]
    worse = holm([float(stdtr(scatter.freedom, -one / error)) for one in excess])
    empty = {arm for arm, p in zip(tested, worse, strict=True) if p < LEVEL}
    return [arm for arm in seated if arm not in empty]


def seats(arms: Iterable[str], best: Mapping[str, Candidate], rates: Sequence[float], lower: bool) -> list[Candidate]:
    """Candidates of variants that go on: each at its best learning rate, with `lower` also at the next lower one."""
    return [
        Candidate(arm, rate)
        for arm in arms
        for rate in (best[arm].rate, *(next_lower(best[arm].rate, rates) if lower else []))
    ]


def merged(*rungs: Results) -> dict[Candidate, dict[int, float]]:
    """Merge the blocks of several rungs of equal length, for candidates that took part in all of them."""
    first, *others = rungs
    common = [one for one in first if all(one in rung for rung in others)]
    return {one: {block: value for rung in rungs for block, value in rung[one].items()} for one in common}


def shrunk_effect(results: Results, arm: str, control: str, scatter: Scatter) -> tuple[float, float]:
    """Difference of a variant from the control in ln(FID), as observed and as a forecast.

    The best of many variants looks better than it is, so the forecast shrinks the difference. It is the posterior mean
    of a normal model in which variants' means have variance τ² and their estimates from B trainings variance s²/B.
    """
    best, average = best_of_arms(results), means(results)
    values = np.array([average[one] for one in best.values() if np.isfinite(average[one])])
    difference = average[best[arm]] - average[best[control]]
    noise = scatter.variance / len(results[best[arm]])
    if len(values) < 3 or not np.isfinite(noise):
        return difference, difference
    between = max(0.0, float(values.var(ddof=1)) - noise)
    return difference, difference * between / (between + noise)
