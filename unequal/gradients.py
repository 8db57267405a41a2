"""Gradients of single images, one after the other: no more than one is held at a time."""

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

Gradient = tuple[Tensor, ...]


def single_gradients(losses: Iterable[Tensor], parameters: Sequence[Tensor]) -> Iterator[Gradient]:
    """The gradient of each loss (a scalar) with respect to all parameters; their `grad` is left alone."""
    for loss in losses:
        yield torch.autograd.grad(loss, parameters, materialize_grads=True)


def squared_norm(gradient: Gradient) -> Tensor:
    """‖g‖² over all parameters, a float64 scalar on their device."""
    return torch.stack([part.double().square().sum() for part in gradient]).sum()
