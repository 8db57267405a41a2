"""What suggestions are made of: measured losses at every timestep, and how far their errors leave a number open."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, Self, TypeVar

import numpy as np

from unequal.diffusion.predictions import Prediction, epsilon_error_factor
from unequal.diffusion.schedule import Flow, NoiseSchedule
from unequal.evaluation.loss_profile import SPACES
from unequal.profiler.document import Timesteps

T = TypeVar("T")
#: The densities that can be asked for.
Kind = Literal["least_variance", "slots"]
#: Over what the loss is shared out between two experts.
Halves = Literal["timesteps", "log_snr"]
#: Largest interval of a timestep, as a share of all, with which it is still suggested; of a density, largest total
#: variation.
WIDEST_SHARE = 0.2
#: Draws of all losses, and their seed.
DRAWS, SEED = 100, 0
#: Spaces whose losses can be shared out among slots → the prediction whose squared error is meant.
LOSSES: dict[str, Prediction] = SPACES | {"velocity": "velocity"}


def shown(value: float) -> str:
    """A number to three significant digits; whole from a hundred on."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


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


class Intervals(dict[str, Interval]):
    """Intervals by the names of their numbers; empty where errors are unknown."""

    def around(self, name: str, to: Callable[[float], float] = float) -> str:
        """Ends of an interval, or what they stand for, in brackets behind a blank; nothing where they are unknown."""
        if name not in self:
            return ""
        low, high = sorted(map(to, (self[name].low, self[name].high)))
        return f" ({shown(low)} … {shown(high)})"


@dataclass(frozen=True)
class MeasuredProfile:
    """Measured losses at every timestep.

    Attributes:
        schedule: of the model.
        prediction: of the network.
        losses: mean squared errors of ε, [T].
        second_moments: mean squares of the same over draws, [T].
        points: how many timesteps were measured; between them values are interpolated.
        redrawn: the same with losses drawn anew by their errors; empty: errors are unknown.
    """

    schedule: NoiseSchedule
    prediction: Prediction
    losses: np.ndarray
    second_moments: np.ndarray
    points: int
    redrawn: tuple["MeasuredProfile", ...] = ()

    @classmethod
    def of(cls, document: Timesteps) -> Self:
        """The profile of a file, by its held-out images where it has some."""
        means, errors = np.array(document.judged.mean), np.array(document.judged.stderr)
        schedule, points = document.noise_schedule, len(document.timesteps)
        losses, moments = document.everywhere(means), document.everywhere(document.judged.second_moment)
        normal = np.random.default_rng(SEED).standard_normal((DRAWS, points))
        redrawn = (document.everywhere(row) for row in means * np.exp(errors / means * normal))
        with np.errstate(over="ignore"):  # moments beyond all bounds are refused where a density is made
            others = [cls(schedule, document.prediction, row, moments * (row / losses) ** 2, points) for row in redrawn]
        return cls(schedule, document.prediction, losses, moments, points, tuple(others))

    @property
    def shift(self) -> float:
        """k of a flow's schedule; 1 of others."""
        return self.schedule.shift if isinstance(self.schedule, Flow) else 1.0

    def losses_in(self, space: str) -> np.ndarray:
        """Losses of another space, a key of LOSSES, [T]."""
        return np.asarray(self.losses / epsilon_error_factor(LOSSES[space], self.schedule.snr).numpy())

    @property
    def trained_moments(self) -> np.ndarray:
        """Second moments of the loss that is trained, the network's own, [T]."""
        factor = epsilon_error_factor(self.prediction, self.schedule.snr).numpy()
        return np.asarray(self.second_moments / factor**2)

    def narrow(self, low: float, high: float) -> bool:
        """Say whether an interval of a timestep is narrow enough for a suggestion."""
        return high - low < WIDEST_SHARE * self.schedule.timesteps

    def intervals(
        self,
        values: Mapping[str, float],
        numbers: Callable[["MeasuredProfile"], Mapping[str, float]],
        carried: Callable[[float, float], bool],
    ) -> Intervals:
        """Intervals of suggested values by name, where redrawn losses give numbers of the same names.

        Args:
            values: those of the profile itself.
            numbers: of a redrawn profile.
            carried: whether an interval is narrow enough, by its ends.
        """
        others = [other for other in map(numbers, self.redrawn) if other.keys() == values.keys()]
        intervals = Intervals()
        for name, value in values.items() if others else ():
            low, high = np.quantile([other[name] for other in others], [0.025, 0.975]).tolist()
            intervals[name] = Interval(name, value, low, high, carried(low, high))
        return intervals


@dataclass(frozen=True)
class Options:
    """Options of the suggestions.

    Attributes:
        slots: K.
        steps: n, of sampling.
        space: a key of LOSSES, whose sums the slots share.
        density: which one the named ones are to be near.
        halves: over what each of two experts gets half of the loss.
    """

    slots: int = 10
    steps: int = 20
    space: str = "epsilon"
    density: Kind = "least_variance"
    halves: Halves = "timesteps"


@dataclass(frozen=True)
class Suggestion(Generic[T]):
    """A suggestion, made once: for code, for JSON, and for people.

    Attributes:
        value: what is suggested.
        figures: for JSON.
        rows: cells of a table, the first row its heads.
        intervals: of its numbers.
        reason, caveat: what was measured, and what that does not say, a sentence each.
    """

    value: T
    title: str
    figures: dict[str, Any]
    rows: Sequence[tuple[str, ...]]
    intervals: Intervals
    reason: str
    caveat: str

    @property
    def withheld(self) -> str:
        """Why the errors of the losses do not carry it; empty where they do, or are unknown."""
        wide = "; ".join(str(interval) for interval in self.intervals.values() if not interval.carried)
        return wide and f"the errors of the losses leave too much open: {wide}"
