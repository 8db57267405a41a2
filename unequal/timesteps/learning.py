"""Learned states of timestep samplers: losses of timesteps, gradients of bins of them.

Arrays in, arrays out; states are plain numbers and lists, which JSON carries without loss.
"""

from typing import Any

import numpy as np

from unequal.errors import UserError
from unequal.timesteps.partition import Partition


class LossHistory:
    """The last losses of every timestep, and p ∝ √E[L²] of them (improved-diffusion, 2102.09672, eq. 18).

    Until every timestep has its full history, p is uniform. Where all of T are equally likely, that takes more
    than T·length draws, since the rarest is waited for: about 23,000 for T = 1000 and a length of 10.

    Args:
        timesteps: T.
        length: losses stored of each timestep; improved-diffusion stores 10.
        uniform_share: of the probability, spread over all timesteps equally; improved-diffusion takes 0.001.
    """

    def __init__(self, timesteps: int, length: int, uniform_share: float) -> None:
        if length < 1 or not 0 <= uniform_share <= 1:
            raise UserError(f"a history of {length}, a uniform share of {uniform_share}; allowed: from 1, in [0, 1]")
        self.losses = np.zeros((timesteps, length))
        self.counts = np.zeros(timesteps, dtype=np.int64)
        self.uniform_share = uniform_share

    def record(self, timesteps: np.ndarray, losses: np.ndarray) -> None:
        """Take in the losses [B] at timesteps [B]; what is no number is left out, as training stops on it."""
        length = self.losses.shape[1]
        for t, loss in zip(timesteps.tolist(), losses.tolist(), strict=True):
            if np.isfinite(loss):
                self.losses[t, self.counts[t] % length] = loss
                self.counts[t] += 1

    @property
    def warm(self) -> bool:
        return bool((self.counts >= self.losses.shape[1]).all())

    @property
    def probabilities(self) -> np.ndarray:
        size = np.sqrt(np.square(self.losses).mean(1))
        uniform = np.full(len(size), 1 / len(size))
        if not self.warm or size.sum() == 0:
            return uniform
        return self.uniform_share * uniform + (1 - self.uniform_share) * size / size.sum()

    def state_dict(self) -> dict[str, Any]:
        return {"losses": self.losses.tolist(), "counts": self.counts.tolist()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.losses, self.counts = np.array(state["losses"]), np.array(state["counts"])


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


class BinMoments:
    """Running second moments E‖g‖² of the gradients of bins of timesteps.

    Args:
        bins: of the timesteps.
        memory: share of the earlier estimate that a new measurement leaves, in [0, 1).
    """

    def __init__(self, bins: Partition, memory: float) -> None:
        self.bins = bins
        self.memory = memory
        self.moments: np.ndarray | None = None

    def draw(self, uniform: np.ndarray) -> np.ndarray:
        """Equally many timesteps of each bin by numbers [n] in [0, 1), one bin behind the other, [n]."""
        return self.bins.draw(np.arange(len(uniform)) * len(self.bins) // len(uniform), uniform)

    def record(self, squares: np.ndarray) -> None:
        """Take in ‖g‖² [K·count] at timesteps that `draw` gave; bins with one that is no number keep their estimate."""
        measured = squares.reshape(len(self.bins), -1).mean(1)
        if self.moments is None:
            known = np.isfinite(measured)
            self.moments = np.where(known, measured, measured[known].mean() if known.any() else 1.0)
        else:
            mixed = self.memory * self.moments + (1 - self.memory) * measured
            self.moments = np.where(np.isfinite(measured), mixed, self.moments)

    def probabilities(self, uniform_share: float) -> np.ndarray:
        """p_t [T]: of least variance over the bins, uniform within each, mixed with a share of uniform timesteps."""
        shares = self.bins.shares
        wanted = shares if self.moments is None else least_variance(shares, self.moments)
        mixed = uniform_share * shares + (1 - uniform_share) * wanted
        return np.repeat(mixed / self.bins.lengths, self.bins.lengths)

    def state_dict(self) -> dict[str, Any]:
        return {"moments": None if self.moments is None else self.moments.tolist()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.moments = None if state["moments"] is None else np.array(state["moments"])


class BinLosses:
    """Running means of losses in bins of timesteps, a loss counting half after so many further ones of its bin.

    Args:
        bins: of the timesteps.
        half_life: in losses of a bin, so that what is seldom drawn is not forgotten sooner.
    """

    def __init__(self, bins: Partition, half_life: int) -> None:
        self.bins, self.half_life = bins, half_life
        self.images, self.counts, self.sums = 0, np.zeros(len(bins)), np.zeros(len(bins))

    def record(self, timesteps: np.ndarray, losses: np.ndarray) -> None:
        """Take in the losses [B] at timesteps [B]; what is no number is left out, as training stops on it."""
        self.images += len(losses)
        known = np.isfinite(losses)
        members = self.bins.members[timesteps[known]]
        counts = np.bincount(members, minlength=len(self.bins))
        kept = 0.5 ** (counts / self.half_life)
        self.counts = kept * self.counts + counts
        self.sums = kept * self.sums + np.bincount(members, losses[known], len(self.bins))

    def along(self, axis: np.ndarray) -> np.ndarray:
        """Losses [T] by the line through the bins' means over an axis [T] that rises; 0 before the first loss.

        A mean stands at its bin's mean place on the axis; beyond the outermost ones, losses are as these.
        """
        seen = self.counts > 0
        if not seen.any():
            return np.zeros(len(axis))
        places = self.bins.sums(axis) / self.bins.lengths
        return np.interp(axis, places[seen], self.sums[seen] / self.counts[seen])

    def state_dict(self) -> dict[str, Any]:
        return {"images": self.images, "counts": self.counts.tolist(), "sums": self.sums.tolist()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.images, self.counts, self.sums = state["images"], np.array(state["counts"]), np.array(state["sums"])


class Patience:
    """The pacing of the difficulty curriculum (2403.10348): a stage ends after so many images without a lower loss.

    The loss is the mean of a batch, noise and all, and the lowest one is that of the stage, since every stage adds
    harder timesteps.

    Args:
        stages: of which there is a last one, that never ends.
        images: the patience; the paper's is that of 200 batches.
    """

    def __init__(self, stages: int, images: int) -> None:
        if stages < 1 or images < 1:
            raise UserError(f"{stages} stages with a patience of {images} images; allowed: from 1, from 1")
        self.stages, self.images = stages, images
        self.stage, self.waited, self.lowest = 0, 0, np.inf

    def record(self, losses: np.ndarray) -> None:
        """Take in the losses [B] of a batch; one that is no number is no lower."""
        if self.stage == self.stages - 1:
            return
        if (loss := float(losses.mean())) < self.lowest:
            self.lowest, self.waited = loss, 0
            return
        self.waited += len(losses)
        if self.waited >= self.images:
            self.stage, self.waited, self.lowest = self.stage + 1, 0, np.inf

    def state_dict(self) -> dict[str, Any]:
        lowest = None if np.isinf(self.lowest) else self.lowest
        return {"stage": self.stage, "waited": self.waited, "lowest": lowest}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.stage, self.waited = state["stage"], state["waited"]
        self.lowest = np.inf if state["lowest"] is None else state["lowest"]
