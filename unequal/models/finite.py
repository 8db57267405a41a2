"""Weights that are numbers: what a network with others answers is NaN, hours later and somewhere else."""

from collections.abc import Mapping

from torch import Tensor

from unequal.errors import UserError


def check_finite(weights: Mapping[str, Tensor], place: str) -> None:
    """Raise UserError, which begins with a place, at the first weight that is NaN or infinite."""
    for name, weight in weights.items():
        if not bool(weight.isfinite().all()):
            raise UserError(f"{place}: weight '{name}' holds NaN or infinite values; allowed: finite ones")
