"""The nearest to a density of timesteps among those that trainers know by name.

Nearest is the q of least Kullback–Leibler divergence KL(p‖q), under which draws from p are likeliest. How near it is,
is measured by the total variation distance ½·Σ|p − q|: the share of draws that would have to lie elsewhere.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.timesteps.densities import beta, edges_of, expit, logit, logit_normal, masses, uniform_time

#: Length of a step below which the search ends.
FINEST = 1e-5
#: Takes the place of probabilities that are too small for a double.
TINY = 1e-300
#: Largest logarithm that is searched: beyond e^±12 a density is a point, or flat, on any grid.
WIDEST = 12.0
#: Length of a step of numerical derivatives.
NUDGE = 1e-2


def compass_search(function: Callable[[np.ndarray], float], start: np.ndarray) -> np.ndarray:
    """Minimum [n] of a function near `start` [n]: go to the best neighbour a step away, or halve the step.

    It converges on smooth functions (Kolda, Lewis and Torczon, SIAM Review 45, 2003), to a minimum that may be local.
    The function is infinite where it has no value.
    """
    directions = np.concatenate([np.eye(len(start)), -np.eye(len(start))])
    here, least, step = start, function(start), 0.5
    while step > FINEST:
        values = [function(here + step * direction) for direction in directions]
        best = int(np.argmin(values))
        if values[best] < least:
            here, least = here + step * directions[best], values[best]
        else:
            step /= 2
    return here


def total_variation(p: np.ndarray, q: np.ndarray) -> float:
    """½·Σ|p − q| of two densities [T], in [0, 1]."""
    return float(np.abs(p - q).sum() / 2)


def divergence(p: np.ndarray, q: np.ndarray) -> float:
    """KL(p‖q) of two densities [T], in nats."""
    inside = p > 0
    return float((p[inside] * np.log(p[inside] / q[inside].clip(TINY))).sum())


def relative_moment(p: np.ndarray, second_moments: np.ndarray) -> float:
    """The second moment of one draw from p, weighted by 1/(T·p), over that of uniform draws.

    Args:
        p: [T], above 0.
        second_moments: of the losses at each timestep, [T].
    """
    return float((second_moments / p).sum() / (len(p) ** 2 * second_moments.mean()))


def limited_exp(logarithm: float) -> float:
    """Its exponential, within bounds beyond which a density changes no more."""
    return math.exp(min(max(float(logarithm), -WIDEST), WIDEST))


def beta_arguments(point: np.ndarray) -> dict[str, float]:
    """Arguments from the logit of the mean and ln(a + b), which change its likelihood almost independently."""
    share, total = float(expit(point[:1])[0]), limited_exp(point[1])
    return {"a": max(share * total, TINY), "b": max((1 - share) * total, TINY)}


#: Family → its density, and its arguments at a point that is searched: a mean and ln of a standard deviation; ln of a
#: shift of uniform times; those of Beta.
FAMILIES: dict[str, tuple[Callable[..., np.ndarray], Callable[[np.ndarray], dict[str, float]]]] = {
    "logit_normal": (logit_normal, lambda point: {"mean": float(point[0]), "std": limited_exp(point[1])}),
    "shift": (uniform_time, lambda point: {"shift": limited_exp(point[0])}),
    "beta": (beta, beta_arguments),
}


@dataclass(frozen=True)
class Nearest:
    """The member of a family that is nearest to a density.

    Attributes:
        family: a key of FAMILIES.
        point: where the search ended, [k].
        arguments: of the member, by their names; on a flow for times before its schedule's own shift.
        probabilities: q_t, [T].
        distance: total variation from the density.
    """

    family: str
    point: np.ndarray
    arguments: Mapping[str, float]
    probabilities: np.ndarray
    distance: float

    @classmethod
    def of(cls, p: np.ndarray, schedule: NoiseSchedule, family: str, start: list[float]) -> "Nearest":
        def distance(point: np.ndarray) -> float:
            try:
                return divergence(p, probabilities_at(family, point, schedule))
            except UserError:  # next to no mass on the grid
                return math.inf

        point = compass_search(distance, np.array(start))
        q = probabilities_at(family, point, schedule)
        return cls(family, point, FAMILIES[family][1](point), q, total_variation(p, q))

    def refitted(self, p: np.ndarray, schedule: NoiseSchedule) -> Callable[[np.ndarray], dict[str, float]]:
        """Function from a density close to p [T] to the arguments of its nearest member, a Newton step from here.

        The step is H⁻¹·Σ_t δp_t·∂θ ln q_t, with H the second derivatives of KL(p‖q_θ): the influence function of an
        M-estimator (Huber, 1964).
        """

        def log_q(step: np.ndarray) -> np.ndarray:
            return np.log(probabilities_at(self.family, self.point + NUDGE * step, schedule).clip(TINY))

        steps = np.eye(len(self.point))
        slopes = np.array([(log_q(step) - log_q(-step)) / (2 * NUDGE) for step in steps])
        bends = [[log_q(a + b) - log_q(a - b) - log_q(b - a) + log_q(-a - b) for a in steps] for b in steps]
        inverse = np.linalg.pinv(-np.array(bends) @ p / (4 * NUDGE**2))
        return lambda other: FAMILIES[self.family][1](self.point + (other - p) @ slopes.T @ inverse)


def probabilities_at(family: str, point: np.ndarray, schedule: NoiseSchedule) -> np.ndarray:
    """Density [T] of a family's member. Raises UserError where it has next to no mass on the schedule's timesteps."""
    density, arguments_at = FAMILIES[family]
    arguments = arguments_at(point)
    shift = arguments.pop("shift", 1.0)
    return masses(partial(density, **arguments), schedule, shift, "open")


def nearest(p: np.ndarray, schedule: NoiseSchedule) -> list[Nearest]:
    """The nearest logit-normal, shift of uniform times and Beta, in this order, of p [T] on a schedule's timesteps."""
    edges = edges_of(schedule, "closed").time
    times = logit((edges[1:] + edges[:-1]) / 2)
    mean = float(p @ times)
    spread = math.sqrt(max(float(p @ (times - mean) ** 2), 1e-6))
    starts = {
        "logit_normal": [mean, math.log(spread)],
        "shift": [mean],
        "beta": [mean, math.log(1 + 4 / spread**2)],
    }
    return [Nearest.of(p, schedule, family, start) for family, start in starts.items()]


@dataclass(frozen=True)
class TwoLevels:
    """The nearest density that draws the timesteps below a border `multiplier` times as often as the others.

    Attributes:
        border: the first of the others.
        multiplier: above 1: the data end is drawn more often.
        distance: total variation from the density.
    """

    border: int
    multiplier: float
    distance: float

    @classmethod
    def of(cls, p: np.ndarray) -> "TwoLevels":
        """By KL(p‖q) from p [T]: for each border the two levels are the means of p."""
        count, below = np.arange(1, len(p)), p.cumsum()[:-1]
        above = 1 - below
        levels = np.stack([below / count, above / (len(p) - count)]).clip(TINY)
        border = 1 + int((below * np.log(levels[0]) + above * np.log(levels[1])).argmax())
        low, high = levels[:, border - 1].tolist()
        return cls(border, low / high, total_variation(p, np.repeat([low, high], [border, len(p) - border])))
