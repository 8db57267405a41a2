"""Timestep samplers that learn while a network trains: from its losses, or from gradients of single images.

States are plain numbers and lists, which JSON carries without loss.
"""

from typing import Any

import numpy as np

from unequal.errors import UserError
from unequal.timesteps.draws import Independent, LowDiscrepancy
from unequal.timesteps.partition import Partition
from unequal.timesteps.samplers import INDEPENDENT, Measure, TimestepSampler, normalised, uniform

LOW_DISCREPANCY = LowDiscrepancy()


class LossSecondMomentSampler(TimestepSampler):
    """p ∝ √E[L²] over the last losses of each timestep (improved-diffusion, 2102.09672, eq. 18).

    Until every timestep has its full history, p is uniform. Where all of T are equally likely, that takes more
    than T·history draws, since the rarest is waited for: about 23,000 for T = 1000 and a history of 10.

    Args:
        timesteps: T.
        history: losses stored of each timestep; improved-diffusion stores 10.
        uniform_share: of the probability, spread over all timesteps equally; improved-diffusion takes 0.001.
        unbiased, draw: as of any sampler.
        known: losses [T, n] to begin with, so that no history is waited for.
    """

    learns = density_learned = True

    def __init__(
        self,
        timesteps: int,
        *,
        history: int,
        uniform_share: float,
        unbiased: bool,
        known: np.ndarray | None = None,
        draw: Independent = INDEPENDENT,
    ) -> None:
        if history < 1 or not 0 <= uniform_share <= 1:
            raise UserError(f"a history of {history}, a uniform share of {uniform_share}; allowed: from 1, in [0, 1]")
        super().__init__(uniform(timesteps), unbiased, draw)
        self.losses = np.zeros((timesteps, history))
        self.counts = np.zeros(timesteps, dtype=np.int64)
        self.uniform_share = uniform_share
        for losses in known.T if known is not None else ():
            self.learn(np.arange(timesteps), losses)

    def learn(self, timesteps: np.ndarray, losses: np.ndarray) -> None:
        """Take in losses; what is no number is left out, as training stops on it."""
        length = self.losses.shape[1]
        for t, loss in zip(timesteps.tolist(), losses.tolist(), strict=True):
            if np.isfinite(loss):
                self.losses[t, self.counts[t] % length] = loss
                self.counts[t] += 1
        self.rebuild()

    @property
    def warm(self) -> bool:
        return bool((self.counts >= self.losses.shape[1]).all())

    def rebuild(self) -> None:
        size = np.sqrt(np.square(self.losses).mean(1))
        self.density = uniform(len(size))
        if self.warm and size.sum() != 0:
            self.density = self.uniform_share * self.density + (1 - self.uniform_share) * size / size.sum()

    def state_dict(self) -> dict[str, Any]:
        return {"losses": self.losses.tolist(), "counts": self.counts.tolist()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.check_state(state)
        self.losses, self.counts = np.array(state["losses"]), np.array(state["counts"])
        self.rebuild()


class EasyToHardSampler(TimestepSampler):
    """The difficulty curriculum (2403.10348): the cluster at the noise end, then one harder after another, at last all.

    Within those that are open every timestep is equally likely. The next one is opened after so many images without a
    lower loss: the mean of a batch, noise and all, against the lowest one of the stage, since every stage adds harder
    timesteps.

    Args:
        clusters: of the timesteps; the paper takes 20.
        patience_images: without a lower loss; the paper's patience is that of 200 batches.
    """

    learns = True

    def __init__(self, clusters: Partition, patience_images: int, draw: Independent = INDEPENDENT) -> None:
        if patience_images < 1:
            raise UserError(f"a patience of {patience_images} images; allowed: from 1")
        self.stages, self.patience_images = len(clusters), patience_images
        self.stage, self.waited, self.lowest = 0, 0, np.inf
        self.difficulty = len(clusters) - 1 - clusters.members
        super().__init__(self.opened(0), draw=draw)

    def opened(self, stage: int) -> np.ndarray:
        """p_t [T] in a stage, counted from 0."""
        return normalised((self.difficulty <= stage) * 1.0)

    def over_training(self) -> list[np.ndarray]:
        """p_t in the first stage, at each quarter of the stages, and in the last, whenever that may be."""
        last = self.stages - 1
        return [self.opened(last * quarter // 4) for quarter in range(5)] if last else [self.probabilities]

    def learn(self, timesteps: np.ndarray, losses: np.ndarray) -> None:
        """Take in the losses of a batch; a mean that is no number is no lower."""
        if self.stage == self.stages - 1:
            return
        if (loss := float(losses.mean())) < self.lowest:
            self.lowest, self.waited = loss, 0
            return
        self.waited += len(losses)
        if self.waited >= self.patience_images:
            self.stage, self.waited, self.lowest = self.stage + 1, 0, np.inf
            self.density = self.opened(self.stage)

    def state_dict(self) -> dict[str, Any]:
        lowest = None if np.isinf(self.lowest) else self.lowest
        return {"stage": self.stage, "waited": self.waited, "lowest": lowest}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.check_state(state)
        if not 0 <= state["stage"] < self.stages:
            raise UserError(f"a state in stage {state['stage']}; allowed: 0 … {self.stages - 1}")
        self.stage, self.waited = state["stage"], state["waited"]
        self.lowest = np.inf if state["lowest"] is None else state["lowest"]
        self.density = self.opened(self.stage)


def least_variance(shares: np.ndarray, second_moments: np.ndarray) -> np.ndarray:
    """Probabilities of bins under which the gradient of one image has the least variance.

    An image is trained at a timestep of bin k with probability p_k, and its gradient g is weighted by
    s_k/p_k, where s_k is the bin's share of all timesteps. Whatever p is, the mean is that of uniform
    timesteps; what p decides is the second moment Σ_k s_k²·E‖g_k‖²/p_k. By Cauchy–Schwarz

        (Σ_k s_k·√E‖g_k‖²)² = (Σ_k s_k·√(E‖g_k‖²/p_k) · √p_k)² ≤ Σ_k s_k²·E‖g_k‖²/p_k · Σ_k p_k,

    with equality for p_k ∝ s_k·√E‖g_k‖² alone. It is Neyman's allocation (1934) of draws to strata, of
    second moments instead of variances: a batch has too few draws to give every bin its exact share.

    Args:
        shares: [K], s_k, summing to 1.
        second_moments: [K], E‖g_k‖² of single images, not negative.

    Returns:
        p_k [K]; the shares themselves, where all moments are 0.
    """
    wanted = shares * np.sqrt(second_moments)
    return wanted / wanted.sum() if wanted.sum() > 0 else shares


class AdaptiveSampler(TimestepSampler):
    """Bins of timesteps by the length of their gradients, without bias.

    The criterion is the variance of the gradient per image: p_k ∝ s_k·√E‖g_k‖² has the least of all
    distributions over bins, see `least_variance`, and losses are weighted by (1/T)/p_t. Low-discrepancy batches draw
    each bin ⌊B·p_k⌋ or ⌈B·p_k⌉ times, which removes most of the remaining variance between bins. Clipping and Adam's
    scaling come after this gradient: the least variance need not be the fastest training.

    Args:
        bins: of the timesteps.
        refresh_images: images trained on between two measurements; the first is made before training.
        images_per_bin: single gradients a bin and measurement.
        memory: share of the earlier estimate that a measurement leaves, in [0, 1).
        uniform_share: of uniform timesteps in the mix; above 0, it bounds weights by 1/uniform_share.
    """

    density_learned = True

    def __init__(
        self,
        bins: Partition,
        *,
        refresh_images: int,
        images_per_bin: int,
        memory: float,
        uniform_share: float,
        draw: Independent = LOW_DISCREPANCY,
    ) -> None:
        self.bins, self.memory, self.uniform_share = bins, memory, uniform_share
        #: Running second moments E‖g‖² of the bins, [K].
        self.moments: np.ndarray | None = None
        super().__init__(self.by_moments(), True, draw)
        self.refresh_images = refresh_images
        self.measured_images = images_per_bin * len(bins)

    def by_moments(self) -> np.ndarray:
        """p_t [T]: of least variance over the bins, uniform within each, mixed with a share of uniform timesteps."""
        shares = self.bins.shares
        wanted = shares if self.moments is None else least_variance(shares, self.moments)
        mixed = self.uniform_share * shares + (1 - self.uniform_share) * wanted
        return np.repeat(mixed / self.bins.lengths, self.bins.lengths)

    def refresh(self, measure: Measure, uniform: np.ndarray) -> None:
        """Measure equally many timesteps of each bin; bins with a length that is no number keep their estimate."""
        count = len(self.bins)
        timesteps = self.bins.draw(np.arange(len(uniform)) * count // len(uniform), uniform)
        measured = measure(timesteps).reshape(count, -1).mean(1)
        if self.moments is None:
            known = np.isfinite(measured)
            self.moments = np.where(known, measured, measured[known].mean() if known.any() else 1.0)
        else:
            mixed = self.memory * self.moments + (1 - self.memory) * measured
            self.moments = np.where(np.isfinite(measured), mixed, self.moments)
        self.density = self.by_moments()

    def state_dict(self) -> dict[str, Any]:
        return {"moments": None if self.moments is None else self.moments.tolist()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.check_state(state)
        if state["moments"] is not None and len(state["moments"]) != len(self.bins):
            raise UserError(f"a state of {len(state['moments'])} bins; allowed: {len(self.bins)}")
        self.moments = None if state["moments"] is None else np.array(state["moments"])
        self.density = self.by_moments()
