"""Gradients of losses over all parameters, their lengths, and the products of mean gradients of cells of timesteps."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

Gradient = tuple[Tensor, ...]
#: Parameters that are multiplied at once in float64.
CHUNK = 1 << 20


def gradients_of(losses: Iterable[Tensor], parameters: Sequence[Tensor]) -> Iterator[Gradient]:
    """The gradient of each loss (a scalar), one held at a time; the parameters' `grad` is left alone."""
    for loss in losses:
        yield torch.autograd.grad(loss, parameters, materialize_grads=True)


def squared_norms(losses: Iterable[Tensor], parameters: Sequence[Tensor]) -> Tensor:
    """‖g‖² over all parameters of the gradient of each loss, [n] float64 on their device."""
    squares = [torch.stack([part.double().square().sum() for part in g]) for g in gradients_of(losses, parameters)]
    return torch.stack(squares).sum(1)


def flat_gradients(losses: Iterable[Tensor], parameters: Sequence[Tensor]) -> Tensor:
    """The gradient of each loss as a row of all parameters, [n, P] in host memory."""
    return torch.stack([torch.cat([part.flatten() for part in g]).cpu() for g in gradients_of(losses, parameters)])


def gram(vectors: Tensor) -> Tensor:
    """Inner products [n, n] of vectors [n, P], in float64."""
    parts = (chunk.double() for chunk in vectors.split(CHUNK, dim=1))
    return torch.stack([part @ part.T for part in parts]).sum(0)


@dataclass(frozen=True)
class Moments:
    """Second moments E‖g‖² of single images' gradients in each cell, [C], and products μ_b·μ_c of mean ones, [C, C].

    Both are free of bias; that of a cell's own product comes out negative now and then, where its mean
    gradient drowns in noise.
    """

    second: np.ndarray
    products: np.ndarray

    @property
    def cosines(self) -> np.ndarray:
        """Cosine between mean gradients, [C, C]; NaN where one of them is lost in noise."""
        squares = np.diag(self.products)
        length = np.sqrt(np.where(squares > 0, squares, np.nan))
        found: np.ndarray = self.products / np.outer(length, length)
        return found


@dataclass(frozen=True)
class GradientSample:
    """Measured gradients of C cells, in F folds of separate images.

    Attributes:
        squares: [C, F, n], ‖g‖² of single images.
        products: [C, F, C, F], inner products of the folds' mean gradients.
    """

    squares: np.ndarray
    products: np.ndarray

    def moments(self) -> Moments:
        """Moments from all folds; a cell's own product takes pairs of different folds alone."""
        folds, products = self.squares.shape[1], self.products.mean((1, 3))
        own = np.einsum("cfcg->cfg", self.products)
        pairs = own.sum((1, 2)) - np.einsum("cff->c", own)
        np.fill_diagonal(products, pairs / (folds * (folds - 1)))
        return Moments(self.squares.mean((1, 2)), products)
