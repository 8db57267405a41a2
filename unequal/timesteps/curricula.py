"""Timestep probabilities that change over training, or that favour a region from the start.

Probabilities are float64 [T]; nothing here is random, and nothing is remembered.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.timesteps.partition import Partition


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
    """SpeeD's step function (2405.17403): t below `boundary`·T is `ratio` times as likely as t above it."""
    weights = np.where(np.arange(timesteps) < round(boundary * timesteps), ratio, 1.0)
    return weights / weights.sum()


def easy_to_hard(clusters: Partition, *, phase_images: int) -> Changing:
    """The difficulty curriculum (2403.10348): the cluster at the noise end at first, one harder a phase, at last all.

    Args:
        clusters: the paper takes 20, equal intervals of log-SNR among its choices.
        phase_images: images until the next cluster is opened.
    """
    hardest, difficulty = len(clusters) - 1, len(clusters) - 1 - clusters.members

    def at(images_trained: int) -> np.ndarray:
        opened = difficulty <= images_trained // phase_images
        return opened / opened.sum()

    return Changing(at, hardest * phase_images)
