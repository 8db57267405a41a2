"""Timestep probabilities that change over training, or that favour a region from the start.

Probabilities are float64 [T]; nothing here is random, and nothing is remembered.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError

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
    if not 0 <= mean < 1 or std <= 0:
        raise UserError(f"a target around {mean:g}·T ± {std:g}·T; allowed: mean in [0, 1), std above 0")
    exponent = -0.5 * ((np.arange(timesteps) / timesteps - mean) / std) ** 2
    bell = np.exp(exponent - exponent.max())
    return bell / bell.sum()


def mixed_with_uniform(probabilities: np.ndarray, uniform_share: float) -> np.ndarray:
    """q = u/T + (1 − u)·q̂: every timestep keeps a share u of its uniform probability."""
    return uniform_share / len(probabilities) + (1 - uniform_share) * probabilities


def curriculum(target: np.ndarray, *, ramp_images: int, uniform_share: float) -> Changing:
    """Paper 2's schedule (2404.07946): p_s = (1 − λ)·uniform + λ·q, λ = min(1, images trained on/ramp).

    Easier timesteps, those nearer pure noise, come less and less often.

    Args:
        target: q̂, [T]: `noise_rate_target` or `gaussian_target`.
        ramp_images: images over which λ rises from 0 to 1.
        uniform_share: of its uniform probability, which every timestep keeps in q, in [0, 1).
    """
    if ramp_images <= 0 or not 0 <= uniform_share < 1:
        raise UserError(
            f"a ramp of {ramp_images} images with a uniform share of {uniform_share}; allowed: above 0, and in [0, 1)"
        )
    goal = mixed_with_uniform(target, uniform_share)

    def at(images_trained: int) -> np.ndarray:
        share = min(1.0, images_trained / ramp_images)
        return (1 - share) / len(goal) + share * goal

    return Changing(at, ramp_images)


def asymmetric(timesteps: int, boundary: float, ratio: float) -> np.ndarray:
    """SpeeD's step function (2405.17403): t below the boundary·T is `ratio` times as likely as t above it."""
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
