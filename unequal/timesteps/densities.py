"""Densities of timesteps that others train by, as probabilities p_t on the grid of any schedule.

A density is given by its distribution function F: over s, the time of a flow before it is shifted, or over λ = ln SNR.
Timestep t has the mass between the edges of its cell, p_t = |F(e_{t+1}) − F(e_t)|. The cells of a flow end at s = t/T,
those of other schedules halfway between neighbouring λ_t; the outermost reach to the ends of all times, or end at the
outermost timesteps. Values of a density, normalised over t, would forget that cells differ in width.

Each function takes `Edges` and gives F there, up to a factor; keywords are keys of the settings.
"""

import math
from collections.abc import Callable
from typing import Annotated, Literal, NamedTuple

import numpy as np

from unequal.diffusion.schedule import Flow, NoiseSchedule
from unequal.errors import UserError
from unequal.timesteps.special import beta_cdf, expit, logit, normal_cdf


class Above(NamedTuple):
    """Numbers above a bound, as an annotation of them."""

    bound: float


class Between(NamedTuple):
    """Numbers from a lowest to a highest, both of them allowed, as an annotation of them."""

    lowest: float
    highest: float


Positive = Annotated[float, Above(0)]


#: Where the outermost cells end: at the ends of all times, or at the outermost timesteps.
Ends = Literal["open", "closed"]
#: A density with less than this between the outermost timesteps is none on their grid.
LEAST_MASS = 1e-6
#: Halvings of an interval of length 1, down to the last digit of a double.
HALVINGS = 54


class Edges(NamedTuple):
    """Edges of the cells of T timesteps, from the data end to the noise end.

    Attributes:
        time: s of a flow before it is shifted, rising within [0, 1], [T + 1].
        log_snr: λ, falling, [T + 1].
        reach: λ of the first and of the last timestep.
    """

    time: np.ndarray
    log_snr: np.ndarray
    reach: tuple[float, float]

    @property
    def log_sigma(self) -> np.ndarray:
        """ln(σ/α) = −λ/2, rising, [T + 1]."""
        return -self.log_snr / 2

    def shifted(self, shift: float) -> "Edges":
        """Edges before times were shifted by k, s to k·s/(1 + (k − 1)·s), which lowers λ by 2·ln k."""
        times, rise = self.time / (shift - (shift - 1) * self.time), 2 * math.log(shift)
        return Edges(times, self.log_snr + rise, (self.reach[0] + rise, self.reach[1] + rise))


def edges_of(schedule: NoiseSchedule, ends: Ends) -> Edges:
    """The edges of a schedule's timesteps."""
    log_snr = schedule.snr.log().cpu().numpy()
    if isinstance(schedule, Flow):
        # Densities over the times of a flow are stated for times before they are shifted.
        times, edges = schedule.times.cpu().numpy(), np.arange(schedule.timesteps + 1) / schedule.timesteps
        log_snr_edges = -2 * (logit(edges) + math.log(schedule.shift))
    else:
        times, middles = expit(-log_snr / 2), (log_snr[1:] + log_snr[:-1]) / 2
        log_snr_edges = np.concatenate([[np.inf], middles, [-np.inf]])
        edges = expit(-log_snr_edges / 2)
    reach = float(log_snr[0]), float(log_snr[-1])
    if ends == "closed":
        edges, log_snr_edges = between(edges, times), between(log_snr_edges, log_snr)
    return Edges(edges, log_snr_edges, reach)


def between(edges: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Edges [T + 1] with the first and the last of the points [T] as the outermost ones."""
    return np.concatenate([points[:1], edges[1:-1], points[-1:]])


def masses(density: Callable[[Edges], np.ndarray], schedule: NoiseSchedule, shift: float, ends: Ends) -> np.ndarray:
    """p_t of a density on a schedule, [T].

    Args:
        density: edges → F there.
        schedule: whose timesteps there are.
        shift: k, by which the density is moved towards the noise; 1: not at all.
        ends: whether what lies beyond the outermost timesteps belongs to them.

    Raises:
        UserError: next to nothing lies between the outermost timesteps.
    """
    both: tuple[Ends, Ends] = ("closed", "open")
    within, whole = (np.abs(np.diff(density(edges_of(schedule, one).shifted(shift)))) for one in both)
    if not within.sum() >= LEAST_MASS * whole.sum() > 0:
        high, low = schedule.snr[[0, -1]].log().tolist()
        raise UserError(
            f"the density has no mass on the grid: next to nothing of it lies between log-SNRs of {low:.2f} and "
            f"{high:.2f}, where schedule '{schedule.name}' has its {schedule.timesteps} timesteps"
        )
    found = whole if ends == "open" else within
    return found / found.sum()


def uniform_time(edges: Edges) -> np.ndarray:
    """Uniform in s: on a flow every timestep equally likely."""
    return edges.time


def uniform_log_snr(edges: Edges) -> np.ndarray:
    """Uniform in λ, between the outermost timesteps."""
    high, low = edges.reach
    return edges.log_snr.clip(low, high)


def logit_normal(edges: Edges, *, mean: float = 0.0, std: Positive = 1.0) -> np.ndarray:
    """ln(s/(1 − s)) is normal (2403.03206, eq. 19); a higher mean lies nearer the noise."""
    return normal_cdf((logit(edges.time) - mean) / std)


def mode(edges: Edges, *, scale: Annotated[float, Between(-1, 2 / (math.pi - 2))] = 1.29) -> np.ndarray:
    """s = 1 − u − c(cos²(πu/2) − 1 + u) for uniform u (2403.03206, eq. 20): above c = 0, more in the middle."""
    low, high = np.zeros_like(edges.time), np.ones_like(edges.time)
    for _ in range(HALVINGS):  # s falls with u
        middle = (low + high) / 2
        beyond = 1 - middle - scale * (np.cos(np.pi * middle / 2) ** 2 - 1 + middle) > edges.time
        low, high = np.where(beyond, middle, low), np.where(beyond, high, middle)
    return 1 - (low + high) / 2


def cosmap(edges: Edges) -> np.ndarray:
    """The times at which a flow has the log-SNRs of the cosine schedule (2403.03206, eq. 21)."""
    return 0.5 + 2 / np.pi * np.arctan(2 * edges.time - 1)


def beta(edges: Edges, *, a: Positive, b: Positive) -> np.ndarray:
    """s ~ Beta(a, b); 0.6 and 0.6 favour both ends (2407.12173)."""
    return beta_cdf(edges.time, a, b)


def log_normal(edges: Edges, *, mean: float = -1.2, std: Positive = 1.2) -> np.ndarray:
    """ln(σ/α) is normal: EDM's (2206.00364). EDM2 (2312.02696) takes −0.4 and 1.0, or −0.8 and 1.6.

    All of them are for data of standard deviation ½; the same noise beside data of 1 has a mean larger by ln 2.
    """
    return normal_cdf((edges.log_sigma - mean) / std)


def laplace(edges: Edges, *, mean: float = 0.0, scale: Positive = 0.5) -> np.ndarray:
    """λ has a Laplace distribution (2407.03297)."""
    distance = (edges.log_snr - mean) / scale
    return np.where(distance < 0, np.exp(-np.abs(distance)) / 2, 1 - np.exp(-np.abs(distance)) / 2)


def cauchy(edges: Edges, *, mean: float = 0.0, scale: Positive = 1.0) -> np.ndarray:
    """λ has a Cauchy distribution (2407.03297)."""
    return np.arctan((edges.log_snr - mean) / scale) / np.pi


#: All of them, by the names under which a recipe's sampler chooses them.
DENSITIES: tuple[Callable[..., np.ndarray], ...] = (
    uniform_time,
    uniform_log_snr,
    logit_normal,
    mode,
    cosmap,
    beta,
    log_normal,
    laplace,
    cauchy,
)
