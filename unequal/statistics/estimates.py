"""Comparison of variants in complete blocks: differences between variants, and their errors.

The unit is a training. A variant is a way of training; the trainings of a block share a base or a seed. The model is
y_ab = variant_a + block_b + e_ab, the logarithm of an endpoint, so that a difference of 0.01 is one per cent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from unequal.errors import UserError


class Estimate(NamedTuple):
    """A difference between two variants in ln(endpoint), with its standard error and degrees of freedom."""

    difference: float
    error: float
    freedom: int


@dataclass(frozen=True)
class BlockModel:
    """ln(endpoint) of every variant in every block.

    Args:
        arms: A names of variants.
        values: ln(endpoint), [A, B], finite; A and B are at least 2.
    """

    arms: tuple[str, ...]
    values: np.ndarray

    @property
    def blocks(self) -> int:
        return self.values.shape[1]

    @property
    def freedom(self) -> int:
        """Degrees of freedom ν = (A − 1)(B − 1)."""
        return (len(self.arms) - 1) * (self.blocks - 1)

    @property
    def pooled_variance(self) -> float:
        """Variance of a training, s² = Σe²/ν, if it is equal in all variants."""
        return float(pooled_variance(self.values))

    @property
    def deviations(self) -> np.ndarray:
        """Standard deviation of each variant's trainings within blocks, [A]; 0 where the variance is negative."""
        return np.sqrt(own_variances(self.values).clip(min=0))

    def contrast(self, arm: str, control: str) -> Estimate:
        """Mean over blocks of ln(endpoint) of a variant less that of its control; see the function `contrast`."""
        difference, error = contrast(self.values, self.arms.index(arm), self.arms.index(control))
        return Estimate(float(difference), float(error), self.freedom)


def residuals(values: np.ndarray) -> np.ndarray:
    """Residuals e_ab after removing the means of variants and blocks, [..., A, B], of one study or of many at once."""
    arms, blocks = values.mean(-1, keepdims=True), values.mean(-2, keepdims=True)
    return values - arms - blocks + values.mean((-2, -1), keepdims=True)


def pooled_variance(values: np.ndarray) -> np.ndarray:
    """Pooled variance s² = Σe²/ν, [...], of values [..., A, B]."""
    arms, blocks = values.shape[-2:]
    return np.asarray((residuals(values) ** 2).sum((-2, -1)) / ((arms - 1) * (blocks - 1)))


def own_variances(values: np.ndarray) -> np.ndarray:
    """Variance of each variant's trainings within blocks, [..., A], of values [..., A, B]; it may be negative.

    The estimate solves E[Σ_b e_ab²]/(B − 1) = (1 − 2/A)·σ_a² + Σσ²/A² for σ_a². The residuals of two variants differ in
    sign alone and do not distinguish them: both then get the pooled variance.
    """
    arms, blocks = values.shape[-2:]
    if arms == 2:
        return np.repeat(pooled_variance(values)[..., None], 2, axis=-1)
    squares = (residuals(values) ** 2).sum(-1) / (blocks - 1)
    whole = squares.sum(-1, keepdims=True) / (1 - 1 / arms)
    return np.asarray((squares - whole / arms**2) / (1 - 2 / arms))


def contrast(values: np.ndarray, arm: int, control: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean difference of two variants over the blocks, and its standard error, both [...], of values [..., A, B].

    The squared error is (σ²_arm + σ²_control)/B, or s²_d/B of the pair's own differences if that is larger. Each σ² is
    the variant's own variance, or the pooled one if that is larger. With the pooled variance alone, a control that
    scatters twice as much as the others would make 13 of 100 families of comparisons claim an effect where there is
    none.
    """
    differences = values[..., arm, :] - values[..., control, :]
    own = differences.var(-1, ddof=1)
    each = np.maximum(own_variances(values), pooled_variance(values)[..., None])
    both = each[..., [arm, control]].sum(-1)
    return differences.mean(-1), np.sqrt(np.maximum(both, own) / values.shape[-1])


def welch(first: Sequence[float], second: Sequence[float]) -> Estimate:
    """Mean of the first ln(endpoints) less that of the second, for variants that share neither variance nor blocks.

    The standard error is Welch's, with his degrees of freedom rounded down.

    Raises:
        UserError: the trainings of neither variant differ among themselves.
    """
    parts = np.array([np.var(side, ddof=1) / len(side) for side in (first, second)])
    if not parts.any():
        raise UserError("all trainings of a side have equal ends; their scatter is not known")
    freedom = parts.sum() ** 2 / (parts**2 / (np.array([len(first), len(second)]) - 1)).sum()
    return Estimate(float(np.mean(first) - np.mean(second)), float(np.sqrt(parts.sum())), int(freedom + 1e-9))
