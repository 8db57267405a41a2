"""Three heads of one network: what they are together, and which of them leads where.

Errors are mean squares in one common space, since only there those of x0, v and ε mean the same.
"""

import numpy as np


def combined_error(products: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Error of the weighted sum of the heads, Σ_ij w_i·C_ij·w_j, [T].

    Args:
        products: C, mean products of the heads' errors, [T, H, H].
        weights: w, [T, H], rows summing to 1.
    """
    return np.einsum("ti,tij,tj->t", weights, products, weights)


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
