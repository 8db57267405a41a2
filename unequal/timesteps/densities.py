"""Densities of timesteps that others train by, as probabilities p_t [T] on the grid of any schedule.

Most are given by a distribution function F: over s, the time of a flow before it is shifted, or over λ = ln SNR.
Timestep t has the mass between the edges of its cell, p_t = |F(e_{t+1}) − F(e_t)|. The cells of a flow end at s = t/T,
those of other schedules halfway between neighbouring λ_t; the outermost reach to the ends of all times, or end at the
outermost timesteps. Values of a density, normalised over t, would forget that cells differ in width.

Each of these functions takes `Edges` and gives F there, up to a factor; keywords are keys of the settings. Steps and
curricula, given on the timesteps themselves, follow them, and functions of statistics that NumPy has not. Nothing here
is random, and nothing is remembered.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch

from unequal.diffusion.schedule import Flow, NoiseSchedule
from unequal.errors import UserError

#: Largest scale of `mode`: beyond, times would not fall with u.
MOST_MODE = 2 / (math.pi - 2)
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
    if ends not in both or not 0 < shift < math.inf:
        raise UserError(f"ends: {ends!r}, shift: {shift}; allowed: 'open' or 'closed', above 0")
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


def logit_normal(edges: Edges, *, mean: float = 0.0, std: float = 1.0) -> np.ndarray:
    """ln(s/(1 − s)) is normal (2403.03206, eq. 19); a higher mean lies nearer the noise."""
    return normal_cdf((logit(edges.time) - mean) / std)


def mode(edges: Edges, *, scale: float = 1.29) -> np.ndarray:
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


def beta(edges: Edges, *, a: float, b: float) -> np.ndarray:
    """s ~ Beta(a, b); 0.6 and 0.6 favour both ends (2407.12173)."""
    return beta_cdf(edges.time, a, b)


def log_normal(edges: Edges, *, mean: float = -1.2, std: float = 1.2) -> np.ndarray:
    """ln(σ/α) is normal: EDM's (2206.00364). EDM2 (2312.02696) takes −0.4 and 1.0, or −0.8 and 1.6.

    All of them are for data of standard deviation ½; the same noise with data of 1 has a mean larger by ln 2.
    """
    return normal_cdf((edges.log_sigma - mean) / std)


def laplace(edges: Edges, *, mean: float = 0.0, scale: float = 0.5) -> np.ndarray:
    """λ has a Laplace distribution (2407.03297)."""
    distance = (edges.log_snr - mean) / scale
    return np.where(distance < 0, np.exp(-np.abs(distance)) / 2, 1 - np.exp(-np.abs(distance)) / 2)


def cauchy(edges: Edges, *, mean: float = 0.0, scale: float = 1.0) -> np.ndarray:
    """λ has a Cauchy distribution (2407.03297)."""
    return np.arctan((edges.log_snr - mean) / scale) / np.pi


#: All that are given by F, by the names under which a recipe's sampler chooses them.
DENSITIES: dict[str, Callable[..., np.ndarray]] = {
    "uniform_time": uniform_time,
    "uniform_log_snr": uniform_log_snr,
    "logit_normal": logit_normal,
    "mode": mode,
    "cosmap": cosmap,
    "beta": beta,
    "log_normal": log_normal,
    "laplace": laplace,
    "cauchy": cauchy,
}


#: Rise of σ over the whole range of t/T, below which SpeeD calls a timestep slow: its 1e-4 a step of 1000.
SLOW = 0.1


@dataclass(frozen=True)
class Changing:
    """Probabilities that change: images trained on → p_t [T], and the images after which they change no more."""

    at: Callable[[int], np.ndarray]
    horizon: int


def noise_rate_target(schedule: NoiseSchedule) -> np.ndarray:
    """q̂ ∝ 1 − σ_t: the lower the noise rate, the harder the timestep, the more often it comes (2404.07946)."""
    hardness = 1 - schedule.sigma.numpy()
    return hardness / hardness.sum()


def gaussian_target(timesteps: int, mean: float, std: float) -> np.ndarray:
    """q̂: a normal over t with mean·T and standard deviation std·T, summing to 1 over 0 … T−1."""
    if not 0 <= mean < 1 or not 0 < std < math.inf:
        raise UserError(f"a target around {mean:g}·T ± {std:g}·T; allowed: mean in [0, 1), std above 0")
    exponent = -0.5 * ((np.arange(timesteps) / timesteps - mean) / std) ** 2
    bell = np.exp(exponent - exponent.max())
    return bell / bell.sum()


def curriculum(target: np.ndarray, *, ramp_images: int, uniform_share: float) -> Changing:
    """Paper 2's schedule (2404.07946): p_s = (1 − λ)·uniform + λ·q, λ = min(1, images trained on/ramp).

    Easier timesteps, those nearer pure noise, come less and less often.

    Args:
        target: q̂, [T]: `noise_rate_target` or `gaussian_target`.
        ramp_images: images over which λ rises from 0 to 1.
        uniform_share: of its uniform probability, which every timestep keeps in q, in [0, 1).
    """
    if not ramp_images > 0 or not 0 <= uniform_share < 1:
        raise UserError(
            f"a ramp of {ramp_images} images with a uniform share of {uniform_share}; allowed: above 0, and in [0, 1)"
        )
    goal = uniform_share / len(target) + (1 - uniform_share) * target

    def at(images_trained: int) -> np.ndarray:
        share = min(1.0, images_trained / ramp_images)
        return (1 - share) / len(goal) + share * goal

    return Changing(at, ramp_images)


def asymmetric(timesteps: int, boundary: float, ratio: float) -> np.ndarray:
    """SpeeD's step function (2405.17403): t below the boundary·T is `ratio` times as likely as t above it.

    Raises UserError for a boundary outside [0, 1], and for a ratio of 0 or less.
    """
    if not 0 <= boundary <= 1 or not 0 < ratio < math.inf:
        raise UserError(f"a boundary at {boundary}·T with a ratio of {ratio}; allowed: in [0, 1], above 0")
    weights = np.where(np.arange(timesteps) < round(boundary * timesteps), ratio, 1.0)
    return weights / weights.sum()


def mirror(schedule: NoiseSchedule) -> np.ndarray:
    """SpeeD's pairs (2405.17403): the timestep that every t is trained with in the other half of a batch, [T].

    M − t below M and t − M from there on, where M is one more than the first timestep at which σ rises by less than
    0.1 over a training's range of t/T: 642 of 1000 on the linear schedule. All of them lie near the data.

    Raises:
        UserError: a schedule whose σ never rises so slowly, or not before its last timestep.
    """
    timesteps = schedule.timesteps
    slow = np.flatnonzero(np.gradient(schedule.sigma.numpy()) * timesteps < SLOW)
    if not len(slow) or (middle := int(slow[0]) + 1) >= timesteps:
        raise UserError(f"schedule '{schedule.name}': σ rises too fast up to its end to be mirrored where it is slow")
    t = np.arange(timesteps)
    return np.where(t < middle, middle - t, t - middle)


#: Terms of the continued fraction: it takes about as many as the root of the larger of a and b.
TERMS = 20_000
#: Relative change of the fraction by its last term, at which it has converged.
CONVERGED = 4 * np.finfo(np.float64).eps
#: Takes the place of 0, by which Lentz's method would divide.
TINY = 1e-300


def logit(share: np.ndarray) -> np.ndarray:
    """ln(x/(1 − x)); −∞ at 0, ∞ at 1."""
    return torch.special.logit(torch.as_tensor(share, dtype=torch.float64)).numpy()


def expit(x: np.ndarray) -> np.ndarray:
    """1/(1 + e^(−x))."""
    return torch.special.expit(torch.as_tensor(x, dtype=torch.float64)).numpy()


def normal_cdf(x: np.ndarray) -> np.ndarray:
    """The standard normal's distribution function, by erfc, which keeps its digits far below the mean."""
    return torch.special.erfc(torch.as_tensor(-x / math.sqrt(2), dtype=torch.float64)).numpy() / 2


def beta_cdf(x: np.ndarray, a: float, b: float) -> np.ndarray:
    """The distribution function I_x(a, b) of Beta(a, b), for x in [0, 1].

    By its continued fraction (DLMF 8.17.22), which converges fast below the mean; above, I_x(a, b) = 1 − I_{1−x}(b, a).

    Raises:
        UserError: a or b so large that the fraction does not converge.
    """
    below = x < (a + 1) / (a + b + 2)
    return np.where(below, lower_part(np.where(below, x, 0), a, b), 1 - lower_part(np.where(below, 0, 1 - x), b, a))


def lower_part(x: np.ndarray, a: float, b: float) -> np.ndarray:
    """I_x(a, b) below the mean: x^a·(1 − x)^b/(a·B(a, b)) over the continued fraction."""
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    with np.errstate(divide="ignore"):  # at 0, where the power is 0
        front = np.exp(a * np.log(x) + b * np.log1p(-x) - log_beta) / a
    return front / fraction(x, a, b)


def fraction(x: np.ndarray, a: float, b: float) -> np.ndarray:
    """1 + d_1/(1 + d_2/(1 + …)) of DLMF 8.17.23, by the modified Lentz's method."""
    value = above = np.ones_like(x)
    below = np.zeros_like(x)
    for n in range(1, TERMS):
        m = n // 2
        grown = m * (b - m) if n % 2 == 0 else -(a + m) * (a + b + m)
        term = grown * x / ((a + n - 1) * (a + n))
        below = 1 / away_from_zero(1 + term * below)
        above = away_from_zero(1 + term / above)
        value = value * above * below
        if (np.abs(above * below - 1) <= CONVERGED).all():
            return value
    raise UserError(f"Beta({a:g}, {b:g}) is too narrow to be computed; allowed: a and b up to 1e8")


def away_from_zero(x: np.ndarray) -> np.ndarray:
    """Replace zeros by a tiny number."""
    return np.where(np.abs(x) < TINY, TINY, x)
