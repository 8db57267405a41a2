"""Comparisons of named tensors."""

from collections.abc import Mapping

import torch
from torch import Tensor


def equal(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    """Say whether both have the same names with the same values, bit by bit."""
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())
