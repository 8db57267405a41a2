"""Averages of weights whose width is a share of the training so far (EDM2, 2312.02696, section 3 and appendix C).

An exponential average of fixed horizon hides what a short training has learned and forgets what a long one has. Here
θ̂(t) = (γ+1)/t^(γ+1) · ∫₀ᵗ τ^γ θ(τ) dτ weights every point of a training by a power of how far it has come, so that 50
and 5,000 steps are averaged alike. The relative width σ is the standard deviation of that profile on [0, 1].
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unequal.errors import UserError
from unequal.settings.average import WIDEST


class PowerProfile(NamedTuple):
    """What an average is of: the point t at which it stood (steps or images) and its exponent γ."""

    time: float
    exponent: float


def exponent_of(width: float) -> float:
    """γ of a relative width σ: the root of σ² = (γ+1)/((γ+2)²(γ+3)); 6.94 for 0.1, 16.97 for 0.05.

    Raises:
        UserError: a width outside (0, 1/√12].
    """
    if not 0 < width <= WIDEST:
        raise UserError(f"a relative width of {width:g}; allowed: above 0, at most {WIDEST:.4f}, a mean over all steps")
    inverse = width**-2
    roots = np.roots([1, 7, 16 - inverse, 12 - inverse])
    return float(max(roots.real.max(), 0.0))


def decay(updates: int, exponent: float) -> float:
    """Share β = (1 − 1/t)^(γ+1) of the old average that the t-th update keeps, t ≥ 1; the first one keeps none."""
    return float((1 - 1 / updates) ** (exponent + 1))


def product(one: PowerProfile, other: PowerProfile) -> float:
    """∫ p·q of two profiles p(τ) = (γ+1)·τ^γ/t^(γ+1) on [0, t]."""
    (first, a), (second, b) = sorted((one, other))
    return (a + 1) * (b + 1) / (a + b + 1) * (first / second) ** b / second


def combination(kept: Sequence[PowerProfile], wanted: PowerProfile) -> np.ndarray:
    """Weights [n] that make an average which was never kept out of snapshots of others, by least squares on [0, t].

    The sum of weights × snapshots comes nearest to the wanted profile. The weights are scaled to a sum of 1, so that
    what no step has changed stays as it is.

    Raises:
        UserError: no snapshot, or the wanted one lies beyond the last of them.
    """
    if not kept or wanted.time > max(profile.time for profile in kept):
        raise UserError(f"an average at {wanted.time:g} from snapshots at {[profile.time for profile in kept]}")
    weights = np.linalg.lstsq(products(kept, kept), products(kept, [wanted])[:, 0], rcond=None)[0]
    return weights / weights.sum()


def missed(kept: Sequence[PowerProfile], wanted: PowerProfile, weights: np.ndarray) -> float:
    """How far weights × kept profiles are from the wanted one, in the mean square and as a share of it."""
    made, whole = weights @ products(kept, kept) @ weights, product(wanted, wanted)
    return float(max(0, made - 2 * weights @ products(kept, [wanted])[:, 0] + whole) / whole) ** 0.5


def products(rows: Sequence[PowerProfile], columns: Sequence[PowerProfile]) -> np.ndarray:
    """∫ p·q of every pair, [rows, columns]."""
    return np.array([[product(one, other) for other in columns] for one in rows])
