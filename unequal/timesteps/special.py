"""Functions of statistics that NumPy has not, in double precision, on arrays of any shape."""

import math

import numpy as np
import torch

from unequal.errors import UserError

#: Terms of the continued fraction: it takes about as many as the root of the larger of a and b.
TERMS = 20_000
#: Relative change of the fraction by its last term, at which it has converged.
CONVERGED = 4 * np.finfo(np.float64).eps
#: Takes the place of 0, by which Lentz's method would divide.
TINY = 1e-300


def logit(share: np.ndarray) -> np.ndarray:
    """ln(x/(1 − x)); −∞ at 0, ∞ at 1."""
    return torch.special.logit(torch.as_tensor(share, dtype=torch.float64)).numpy()


def expit(x: np.ndarray) -> np.ndarray:
    """1/(1 + e^(−x))."""
    return torch.special.expit(torch.as_tensor(x, dtype=torch.float64)).numpy()


def normal_cdf(x: np.ndarray) -> np.ndarray:
    """The standard normal's distribution function, by erfc, which keeps its digits far below the mean."""
    return torch.special.erfc(torch.as_tensor(-x / math.sqrt(2), dtype=torch.float64)).numpy() / 2


def beta_cdf(x: np.ndarray, a: float, b: float) -> np.ndarray:
    """The distribution function I_x(a, b) of Beta(a, b), for x in [0, 1].

    By its continued fraction (DLMF 8.17.22), which converges fast below the mean; above, I_x(a, b) = 1 − I_{1−x}(b, a).

    Raises:
        UserError: a or b so large that the fraction does not converge.
    """
    below = x < (a + 1) / (a + b + 2)
    return np.where(below, lower_part(np.where(below, x, 0), a, b), 1 - lower_part(np.where(below, 0, 1 - x), b, a))


def lower_part(x: np.ndarray, a: float, b: float) -> np.ndarray:
    """I_x(a, b) below the mean: x^a·(1 − x)^b/(a·B(a, b)) over the continued fraction."""
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    with np.errstate(divide="ignore"):  # at 0, where the power is 0
        front = np.exp(a * np.log(x) + b * np.log1p(-x) - log_beta) / a
    return front / fraction(x, a, b)


def fraction(x: np.ndarray, a: float, b: float) -> np.ndarray:
    """1 + d_1/(1 + d_2/(1 + …)) of DLMF 8.17.23, by the modified Lentz's method."""
    value = above = np.ones_like(x)
    below = np.zeros_like(x)
    for n in range(1, TERMS):
        m = n // 2
        grown = m * (b - m) if n % 2 == 0 else -(a + m) * (a + b + m)
        term = grown * x / ((a + n - 1) * (a + n))
        below = 1 / away_from_zero(1 + term * below)
        above = away_from_zero(1 + term / above)
        value = value * above * below
        if (np.abs(above * below - 1) <= CONVERGED).all():
            return value
    raise UserError(f"Beta({a:g}, {b:g}) is too narrow to be computed; allowed: a and b up to 1e8")


def away_from_zero(x: np.ndarray) -> np.ndarray:
    """Replace zeros by a tiny number."""
    return np.where(np.abs(x) < TINY, TINY, x)
