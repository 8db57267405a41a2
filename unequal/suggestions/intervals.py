"""Intervals of suggested numbers, by the errors of the measured losses, and which numbers are withheld.

Losses are drawn anew around their means by their standard errors, and each number is made of each draw. An interval
holds 95 % of the results.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from unequal.diffusion.schedule import NoiseSchedule
from unequal.timesteps.partition import equal_sums

#: Draws of all losses, and their seed.
DRAWS, SEED = 100, 0
#: Largest interval of a timestep, as a share of all, with which a border or a slot is still suggested.
WIDEST_SHARE = 0.2
#: Largest ratio of an interval's ends with which γ is still suggested.
WIDEST_RATIO = 4.0


@dataclass(frozen=True)
class Interval:
    """A suggested number, and where 95 % of redrawn losses put it.

    Attributes:
        name: of the number.
        value: that is suggested.
        low, high: ends.
        carried: whether the interval is narrow enough for a suggestion.
    """

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


def intervals(
    replicas: np.ndarray,
    schedule: NoiseSchedule,
    factor: np.ndarray,
    slots: Sequence[int],
    gamma: tuple[float, Callable[[np.ndarray], float]],
    border: tuple[float, Callable[[np.ndarray], float]],
) -> dict[str, list[Interval]]:
    """Intervals of the suggestions that are single numbers, by section; nothing without replicas.

    Raises UserError where redrawn losses have no slots of equal sums.

    Args:
        replicas: redrawn losses of ε, [n, T].
        schedule: of the model.
        factor: [T], from a loss of ε to the one that slots share.
        slots: first timesteps of the suggested slots but the first.
        gamma, border: value that is suggested, and what makes it of losses [T].
    """
    if not len(replicas):
        return {}
    total, count = schedule.timesteps, len(slots) + 1
    firsts = np.array([[one.first for one in equal_sums(losses * factor, count)][1:] for losses in replicas])

    def narrow(low: float, high: float) -> bool:
        return high - low < WIDEST_SHARE * total

    ends = [interval(f"start of slot {n}", first, firsts[:, n - 2], narrow) for n, first in enumerate(slots, 2)]
    gammas, borders = (np.array([make(losses) for losses in replicas]) for _, make in (gamma, border))
    return {
        "slots": ends,
        "gamma": [interval("γ", gamma[0], gammas, lambda low, high: high <= WIDEST_RATIO * low)],
        "boundary": [interval("index", border[0], borders, narrow)],
    }


def interval(name: str, value: float, found: np.ndarray, carried: Callable[[float, float], bool]) -> Interval:
    """The interval of a number by its values for redrawn losses, [n]."""
    low, high = (float(end) for end in np.quantile(found, [0.025, 0.975]))
    return Interval(name, value, low, high, carried(low, high))


def withheld(found: Mapping[str, Sequence[Interval]], part: str) -> bool:
    """Whether errors do not carry the suggestion of a section."""
    return any(not one.carried for one in found.get(part, ()))
