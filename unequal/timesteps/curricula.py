"""Timestep probabilities that change over training, or that favour a region from the start.

Probabilities are float64 [T]; nothing here is random, and nothing is remembered.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unequal.errors import UserError


@dataclass(frozen=True)
class Changing:
    """Probabilities that change: images seen → p_t [T], and the images after which they change no more."""

    at: Callable[[int], np.ndarray]
    horizon: int


def noise_rate_target(alphas_cumprod: np.ndarray) -> np.ndarray:
    """q̂ ∝ 1 − √(1 − ᾱ_t): the lower the noise rate, the harder the timestep, the more often it comes (2404.07946)."""
    hardness = 1 - np.sqrt(1 - alphas_cumprod)
    return hardness / hardness.sum()


def gaussian_target(timesteps: int, mean: float, std: float) -> np.ndarray:
    """q̂: a normal over t with mean·T and standard deviation std·T, summing to 1 over 0 … T−1."""
    if not 0 <= mean < 1 or std <= 0:
        raise UserError(f"a target around {mean:g}·T ± {std:g}·T; allowed: mean in [0, 1), std above 0")
    exponent = -0.5 * ((np.arange(timesteps) / timesteps - mean) / std) ** 2
    bell = np.exp(exponent - exponent.max())
    return bell / bell.sum()


def with_floor(probabilities: np.ndarray, floor: float) -> np.ndarray:
    """q = floor/T + (1 − floor)·q̂: every timestep keeps a share of its uniform probability."""
    return floor / len(probabilities) + (1 - floor) * probabilities


def curriculum(
    alphas_cumprod: np.ndarray, *, target: str, ramp_images: int, floor: float, mean: float = 0.3, std: float = 0.2
) -> Changing:
    """Paper 2's schedule (2404.07946): p_s = (1 − λ)·uniform + λ·q, λ = min(1, images seen/ramp).

    Easier timesteps, those nearer pure noise, come less and less often.

    Args:
        alphas_cumprod: [T].
        target: `noise_rate` (q̂ ∝ 1 − √(1 − ᾱ_t)) or `gaussian`.
        ramp_images: images over which λ rises from 0 to 1.
        floor: share of its uniform probability that every timestep keeps, in [0, 1).
        mean, std: of the gaussian target, as shares of T.
    """
    timesteps = len(alphas_cumprod)
    if ramp_images <= 0 or not 0 <= floor < 1:
        raise UserError(f"a ramp of {ramp_images} images with floor {floor}; allowed: above 0, and in [0, 1)")
    hat = noise_rate_target(alphas_cumprod) if target == "noise_rate" else gaussian_target(timesteps, mean, std)
    goal = with_floor(hat, floor)

    def at(images_seen: int) -> np.ndarray:
        share = min(1.0, images_seen / ramp_images)
        return (1 - share) / timesteps + share * goal

    return Changing(at, ramp_images)


def asymmetric(timesteps: int, boundary: float, ratio: float) -> np.ndarray:
    """SpeeD's step function (2405.17403): t below `boundary`·T is `ratio` times as likely as t above it."""
    weights = np.where(np.arange(timesteps) < round(boundary * timesteps), ratio, 1.0)
    return weights / weights.sum()


def difficulty_clusters(alphas_cumprod: np.ndarray, clusters: int) -> np.ndarray:
    """Cluster of each timestep, 0 the easiest: equal intervals of log-SNR, as the difficulty curriculum has them.

    Raises:
        UserError: an interval without a timestep.
    """
    log_snr = np.log(alphas_cumprod) - np.log1p(-alphas_cumprod)
    edges = np.linspace(log_snr.min(), log_snr.max(), clusters + 1)
    member = np.clip(np.searchsorted(edges, log_snr, side="right") - 1, 0, clusters - 1)
    counts = np.bincount(member, minlength=clusters)
    if (counts == 0).any():
        raise UserError(
            f"cluster {int(np.argmin(counts))} of {clusters} holds no timestep: the schedule jumps over its SNR; "
            "use fewer clusters"
        )
    return member


def easy_to_hard(alphas_cumprod: np.ndarray, *, clusters: int, phase_images: int) -> Changing:
    """The difficulty curriculum (2403.10348): the easiest cluster at first, one harder a phase, at last all.

    Args:
        alphas_cumprod: [T].
        clusters: how many; the paper takes 20.
        phase_images: images until the next cluster is opened.
    """
    member = difficulty_clusters(alphas_cumprod, clusters)

    def at(images_seen: int) -> np.ndarray:
        opened = member <= images_seen // phase_images
        return opened / opened.sum()

    return Changing(at, (clusters - 1) * phase_images)
