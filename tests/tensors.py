"""Tensors of the tests: comparisons of named ones, random ones, levels of signal and noise."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor


def equal(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    """Say whether both have the same names with the same values, bit by bit."""
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


def normal(seed: int, *shape: int) -> Tensor:
    """Standard normal numbers of a seed, float64."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def levels(angle: float) -> tuple[Tensor, Tensor]:
    """α and σ on the unit circle, from nearly clean at 0 to nearly pure noise at π/2."""
    return torch.tensor(math.cos(angle), dtype=torch.float64), torch.tensor(math.sin(angle), dtype=torch.float64)
