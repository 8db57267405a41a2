"""What follows from measured losses: means with standard errors, other spaces, excess, paired changes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from unequal.diffusion.predictions import Prediction, x0_error_factor
from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.timesteps.partition import Partition

#: Losses are measured in ε-space; short name → prediction in whose space they are told besides.
SPACES: dict[str, Prediction] = {"epsilon": "epsilon", "v": "v_prediction", "x0": "sample"}


@dataclass(frozen=True)
class LossProfile:
    """Mean loss of each timestep and its standard error, both [T]."""

    mean: np.ndarray
    stderr: np.ndarray

    @classmethod
    def of(cls, losses: np.ndarray) -> Self:
        """From the losses of all draws, [T, n]. Raises UserError where n < 2 or a loss is not finite."""
        wide = checked(losses)
        return cls(wide.mean(1), wide.std(1, ddof=1) / np.sqrt(wide.shape[1]))

    def scaled(self, factor: np.ndarray) -> "LossProfile":
        """Every timestep's loss times a factor of its own, [T]."""
        return LossProfile(self.mean * factor, self.stderr * factor)

    @property
    def largest_over_smallest(self) -> float:
        """How unequal timesteps are."""
        return float(self.mean.max() / self.mean.min())


def checked(losses: np.ndarray) -> np.ndarray:
    """Losses [T, n] in double precision. Raises UserError where they are no draws of a profile."""
    if losses.ndim != 2 or losses.shape[1] < 2:
        raise UserError(f"losses of shape {list(losses.shape)} are no profile; needed: [timesteps, 2 draws or more]")
    if not np.isfinite(losses).all():
        t, n = np.argwhere(~np.isfinite(losses))[0]
        raise UserError(f"the loss profile holds {losses[t, n]} at t = {t}; losses are finite")
    return losses.astype(np.float64)


def space_factor(space: str, schedule: NoiseSchedule) -> np.ndarray:
    """Factor [T] from a squared error of ε to the same error in a space of SPACES: 1, 1/α² (v) or σ²/α² (x0).

    It is a factor of t alone: standard errors, floors and excesses are converted as losses are.
    """
    tables = schedule.alpha.cpu(), schedule.sigma.cpu()
    factor: np.ndarray = (x0_error_factor("epsilon", *tables) / x0_error_factor(SPACES[space], *tables)).numpy()
    return factor


def excess_loss(losses: np.ndarray, floor: np.ndarray) -> np.ndarray:
    """What a model loses beyond the floor on the same draws, clipped at 0, [T]."""
    return np.maximum(0, excess_profile(losses, floor).mean)


def excess_profile(losses: np.ndarray, floor: np.ndarray) -> LossProfile:
    """What a model loses beyond the floor on the same draws, [T, n] both; by chance it may be below 0.

    Raises UserError where the draws are not the same.
    """
    if losses.shape != floor.shape:
        raise UserError(f"losses of shape {list(losses.shape)} have no floor of shape {list(floor.shape)}")
    return LossProfile.of(losses.astype(np.float64) - floor)


def relative_change(before: np.ndarray, after: np.ndarray) -> tuple[float, float]:
    """Σ_t L_t after / Σ_t L_t before − 1 over paired draws [t, n], and its standard error.

    The ratio's error comes from the paired residuals after − ratio·before (delta method): what both
    models find hard cancels.
    """
    change, parts = influences(before, after)
    return change, standard_error(parts)


def weighted_change(
    before: np.ndarray, after: Sequence[np.ndarray], slots: Partition, weights: np.ndarray
) -> tuple[float, float]:
    """Σ w_jk·R_jk over the relative changes R of slot k by model j, and its standard error over draws.

    All models meet the same draws, so that their changes of one slot go together: influences of a
    draw are added up before they are squared. Draws of different timesteps are independent.

    Args:
        before: losses of the base, [T, n].
        after: losses of m models on the same draws, each [T, n].
        slots: K ranges of the T timesteps.
        weights: [m, K]; of a mean they add up to 1, of a difference of means to 0.
    """
    change, variance = 0.0, 0.0
    for slot, column in zip(slots, weights.T, strict=True):
        part = slot.slice
        found = [(w, *influences(before[part], losses[part])) for w, losses in zip(column, after, strict=True) if w]
        if found:
            change += sum(w * one for w, one, _ in found)
            variance += standard_error(np.sum([w * parts for w, _, parts in found], axis=0)) ** 2
    return float(change), float(np.sqrt(variance))


def influences(before: np.ndarray, after: np.ndarray) -> tuple[float, np.ndarray]:
    """A relative change, and the part of every draw in its error, [t, n]."""
    before, after = checked(before), checked(after)
    if before.shape != after.shape:
        raise UserError(f"losses of shapes {list(before.shape)} and {list(after.shape)} are not of the same draws")
    total = before.mean(1).sum()
    ratio = after.mean(1).sum() / total
    return float(ratio - 1), (after - ratio * before) / total


def standard_error(parts: np.ndarray) -> float:
    """Of a sum over timesteps of means over draws, [t, n]: timesteps are strata of independent draws."""
    return float(np.sqrt((parts.var(1, ddof=1) / parts.shape[1]).sum()))
