"""Intervals of suggested numbers, by the errors of the measured losses, and which numbers are withheld.

Losses are drawn anew around their means by their standard errors, and each number is made of each draw. An interval
holds 95 % of the results.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

#: Draws of all losses, and their seed.
DRAWS, SEED = 100, 0
#: Largest interval of a timestep, as a share of all, with which it is still suggested; of a density, largest total
#: variation.
WIDEST_SHARE = 0.2
#: Largest ratio of an interval's ends with which γ is still suggested.
WIDEST_RATIO = 4.0


@dataclass(frozen=True)
class Interval:
    """A suggested number, where 95 % of redrawn losses put it, and whether that is narrow enough for a suggestion."""

    name: str
    value: float
    low: float
    high: float
    carried: bool

    def __str__(self) -> str:
        return f"{self.name} {shown(self.value)} ({shown(self.low)} … {shown(self.high)})"


def shown(value: float) -> str:
    """A number to three significant digits; whole from a hundred on."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def redrawn(means: Sequence[float], errors: Sequence[float]) -> np.ndarray:
    """Losses [DRAWS, K] around their means [K], by relative standard errors; all above 0."""
    relative = np.divide(errors, means)
    return np.asarray(means) * np.exp(relative * np.random.default_rng(SEED).standard_normal((DRAWS, len(relative))))


def intervals_of(
    named: Mapping[str, float],
    make: Callable[[np.ndarray], Sequence[float]],
    carried: Callable[[float, float], bool],
    replicas: np.ndarray,
) -> list[Interval]:
    """Intervals of a section's numbers; none where no redrawn losses give as many numbers.

    Args:
        named: name → the suggested value.
        make: of losses [T], their values in the same order; of another length: the losses give other numbers.
        carried: whether an interval is narrow enough, by its ends.
        replicas: redrawn losses, [n, T].
    """
    made = [one for one in map(make, replicas) if len(one) == len(named)]
    columns = np.array(made).T if made else ()
    return [interval(*one, column, carried) for one, column in zip(named.items(), columns, strict=False)]


def narrow(timesteps: int) -> Callable[[float, float], bool]:
    """Say whether an interval of a timestep is narrow enough, of so many in all."""
    return lambda low, high: high - low < WIDEST_SHARE * timesteps


def interval(name: str, value: float, found: np.ndarray, carried: Callable[[float, float], bool]) -> Interval:
    """The interval of a number by its values for redrawn losses, [n]."""
    low, high = (float(end) for end in np.quantile(found, [0.025, 0.975]))
    return Interval(name, value, low, high, carried(low, high))


def too_open(found: Mapping[str, Sequence[Interval]], part: str) -> str:
    """Why errors do not carry the suggestion of a section; nothing where they do, or are unknown."""
    if part not in found:
        return ""
    if not found[part]:
        return "no redrawn losses give as many numbers"
    wide = "; ".join(str(one) for one in found[part] if not one.carried)
    return wide and f"the errors of the losses leave too much open: {wide}"
