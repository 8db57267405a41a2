"""Differences between variants in complete blocks: of trainings by seed, or of scores by sampling seed.

The model is y_ab = variant_a + block_b + e_ab, of the logarithm of an endpoint, so that 0.01 is one per cent.
"""

import numpy as np


def residuals(values: np.ndarray) -> np.ndarray:
    """Residuals e_ab after removing the means of variants and blocks, [..., A, B], of one study or of many at once."""
    variants, blocks = values.mean(-1, keepdims=True), values.mean(-2, keepdims=True)
    return values - variants - blocks + values.mean((-2, -1), keepdims=True)


def degrees_of_freedom(values: np.ndarray) -> int:
    """Degrees of freedom ν = (A − 1)(B − 1) of the residuals of values [..., A, B]."""
    variants, blocks = values.shape[-2:]
    return (variants - 1) * (blocks - 1)


def pooled_variance(values: np.ndarray) -> np.ndarray:
    """Pooled variance s² = Σe²/ν, [...], of values [..., A, B]."""
    return np.asarray((residuals(values) ** 2).sum((-2, -1)) / degrees_of_freedom(values))


def own_variances(values: np.ndarray) -> np.ndarray:
    """Variance of each variant within blocks, [..., A], of values [..., A, B]; it may be negative.

    The estimate solves E[Σ_b e_ab²]/(B − 1) = (1 − 2/A)·σ_a² + Σσ²/A² for σ_a². The residuals of two variants differ in
    sign alone and do not distinguish them: both then get the pooled variance.
    """
    variants, blocks = values.shape[-2:]
    if variants == 2:
        return np.repeat(pooled_variance(values)[..., None], 2, axis=-1)
    squares = (residuals(values) ** 2).sum(-1) / (blocks - 1)
    whole = squares.sum(-1, keepdims=True) / (1 - 1 / variants)
    return np.asarray((squares - whole / variants**2) / (1 - 2 / variants))


def contrast(values: np.ndarray, variant: int, control: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean difference of two variants over the blocks, and its standard error, both [...], of values [..., A, B].

    The squared error is (σ²_variant + σ²_control)/B, or s²_d/B of the pair's own differences if that is larger. Each σ²
    is the variant's own variance, or the pooled one if that is larger. With the pooled variance alone, a control that
    scatters twice as much as the others would make 13 of 100 families of contrasts claim an effect where there is none.
    """
    differences = values[..., variant, :] - values[..., control, :]
    own = differences.var(-1, ddof=1)
    each = np.maximum(own_variances(values), pooled_variance(values)[..., None])
    both = each[..., [variant, control]].sum(-1)
    return differences.mean(-1), np.sqrt(np.maximum(both, own) / values.shape[-1])
