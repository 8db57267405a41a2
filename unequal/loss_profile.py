"""What follows from measured losses: means with standard errors, excess over the floor, paired changes."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class LossProfile:
    """Mean loss of each timestep and its standard error, both [T]."""

    mean: np.ndarray
    stderr: np.ndarray

    @classmethod
    def of(cls, losses: np.ndarray) -> "LossProfile":
        """From the losses of all draws, [T, n], n ≥ 2."""
        wide = losses.astype(np.float64)
        return cls(wide.mean(1), wide.std(1, ddof=1) / np.sqrt(losses.shape[1]))


def excess_loss(losses: np.ndarray, floor: np.ndarray) -> np.ndarray:
    """What a model loses beyond the floor on the same draws, clipped at 0, [T]."""
    return np.maximum(0, (losses.astype(np.float64) - floor).mean(1))


def relative_change(before: np.ndarray, after: np.ndarray) -> tuple[float, float]:
    """Σ_t L_t after / Σ_t L_t before − 1 over paired draws [t, n], and its standard error.

    The ratio's error comes from the paired residuals after − ratio·before (delta method): what both
    models find hard cancels.
    """
    before, after = before.astype(np.float64), after.astype(np.float64)
    total = before.mean(1).sum()
    ratio = after.mean(1).sum() / total
    residuals = after - ratio * before
    variance = (residuals.var(1, ddof=1) / residuals.shape[1]).sum()
    return float(ratio - 1), float(np.sqrt(variance) / total)
