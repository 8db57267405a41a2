"""Errors of predictions over timesteps: where one gives way to another, and what three heads could be together.

Errors are mean squares in one common space, since only there those of x0, v and ε mean the same. All ratios are
free of that space: they would be the same in any other.
"""

import numpy as np

from unequal.errors import UserError


def crossover(below: np.ndarray, above: np.ndarray) -> int:
    """The timestep from which on `above` errs less, if `below` is the better one nearer the data.

    It is the split k with the least Σ_{t<k} log below_t + Σ_{t≥k} log above_t: the best that one switch from the
    one to the other can do where every timestep's relative error counts alike. Noise of single timesteps moves it
    little, however often it makes the curves cross.

    Args:
        below, above: errors, [T], above 0.

    Returns:
        k in 0 … T; 0 where `above` is better throughout, T where `below` is.
    """
    if below.shape != above.shape or below.ndim != 1:
        raise UserError(f"errors of shapes {list(below.shape)} and {list(above.shape)} are not of the same timesteps")
    if not (np.minimum(below, above) > 0).all():
        raise UserError("errors must be above 0 to be compared as ratios")
    return int(np.argmin(np.concatenate([[0.0], np.cumsum(np.log(below) - np.log(above))])))


def correlations(products: np.ndarray) -> np.ndarray:
    """Correlations of the heads' errors at every timestep, [T, H, H], from their mean products [T, H, H].

    Errors have no mean to speak of, so products stand for covariances.
    """
    scale = np.sqrt(np.diagonal(products, axis1=1, axis2=2))
    return products / (scale[:, :, None] * scale[:, None, :])


def combined_error(products: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Error of the weighted sum of the heads, Σ_ij w_i·C_ij·w_j, [T].

    Args:
        products: C, mean products of the heads' errors, [T, H, H].
        weights: w, [T, H], rows summing to 1.
    """
    return np.einsum("ti,tij,tj->t", weights, products, weights)


def least_error(products: np.ndarray) -> np.ndarray:
    """Mean over draws of the smallest head's error, [T], from the products of every draw, [T, n, H, H].

    No choice by timestep can reach it: which head is best for an image shows only where the image is known.
    """
    return np.diagonal(products, axis1=2, axis2=3).min(2).mean(1)


def win_shares(wins: np.ndarray, bins: np.ndarray) -> np.ndarray:
    """Share of the images at which each head won, [T, H].

    Args:
        wins: counts, [bins, H].
        bins: the bin of each timestep, [T].

    Returns:
        NaN where a bin has seen no image.
    """
    counts = wins.sum(1, keepdims=True)
    return np.divide(wins, counts, out=np.full(wins.shape, np.nan), where=counts > 0)[bins]


def kept_lead(early: np.ndarray, late: np.ndarray) -> float:
    """Share of the timesteps whose leading head is the same in two tables of win shares, [T, H] both.

    Timesteps of which either table says nothing are left out.
    """
    known = ~(np.isnan(early).any(1) | np.isnan(late).any(1))
    return float((early[known].argmax(1) == late[known].argmax(1)).mean())
