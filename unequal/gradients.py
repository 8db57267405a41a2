"""Gradients of single images, and their moments over cells of timesteps.

What a timestep sampler costs or saves follows from few numbers: how long the gradients of single
images are in each range of timesteps, and how the ranges' mean gradients stand to each other.
Gradients are taken one after the other, and only their sums are kept.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

Gradient = tuple[Tensor, ...]
#: Parameters that are multiplied at once in float64.
CHUNK = 1 << 20


def single_gradients(losses: Iterable[Tensor], parameters: Sequence[Tensor]) -> Iterator[Gradient]:
    """The gradient of each loss (a scalar) with respect to all parameters; their `grad` is left alone."""
    for loss in losses:
        yield torch.autograd.grad(loss, parameters, materialize_grads=True)


def squared_norm(gradient: Gradient) -> Tensor:
    """‖g‖² over all parameters, a float64 scalar on their device."""
    return torch.stack([part.double().square().sum() for part in gradient]).sum()


@dataclass(frozen=True)
class Moments:
    """Second moments E‖g‖² of single images' gradients in each cell, [C], and products μ_b·μ_c of mean ones, [C, C].

    Both are free of bias: of each cell's own product, pairs of one image with itself are left out, so that
    it may come out negative where the mean gradient drowns in noise.
    """

    second: np.ndarray
    products: np.ndarray

    @property
    def variance(self) -> np.ndarray:
        """Trace of the covariance of single images' gradients, E‖g‖² − ‖μ‖², [C]."""
        return self.second - np.diag(self.products)

    @property
    def cosines(self) -> np.ndarray:
        """Cosine between mean gradients, [C, C]; NaN where one of them is lost in noise."""
        squares = np.diag(self.products)
        length = np.sqrt(np.where(squares > 0, squares, np.nan))
        found: np.ndarray = self.products / np.outer(length, length)
        return found

    def merged(self, mixture: np.ndarray) -> "Moments":
        """Moments of mixtures of cells; rows of `mixture` [K, C] are the cells' shares and sum to 1."""
        return Moments(mixture @ self.second, mixture @ self.products @ mixture.T)


@dataclass(frozen=True)
class GradientSums:
    """What single images' gradients leave behind: F folds of n images in each of C cells.

    Attributes:
        squares: [C, F, n], ‖g‖² of each.
        products: [C, F, C, F], inner products of the folds' sums.
    """

    squares: np.ndarray
    products: np.ndarray

    def moments(self, left_out: int | None = None) -> Moments:
        """From all folds, or from all but one."""
        kept = [fold for fold in range(self.squares.shape[1]) if fold != left_out]
        squares = self.squares[:, kept].sum((1, 2))
        count = len(kept) * self.squares.shape[2]
        sums = self.products[:, kept][:, :, :, kept].sum((1, 3))
        own = (np.diag(sums) - squares) / (count * (count - 1))
        products = sums / count**2
        np.fill_diagonal(products, own)
        return Moments(squares / count, products)

    def estimate(self, figure: Callable[[Moments], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """A figure of the moments and its standard error, by leaving out one fold after the other (jackknife)."""
        folds = self.squares.shape[1]
        others = np.stack([figure(self.moments(fold)) for fold in range(folds)])
        return figure(self.moments()), np.sqrt((folds - 1) * others.var(0))


def sum_gradients(cells: Iterable[Iterable[Tensor]], parameters: Sequence[Tensor], folds: int) -> GradientSums:
    """Take the gradients of single images' losses, cell by cell.

    Holds C·F vectors as long as all parameters in host memory, however many images there are.

    Args:
        cells: the losses (scalars) of each cell, equally many and a multiple of `folds`.
        parameters: of the network.
        folds: F, two or more.
    """
    squares, sums = [], []
    for losses in cells:
        one = torch.zeros(folds, sum(parameter.numel() for parameter in parameters), device=parameters[0].device)
        norms = []
        for i, gradient in enumerate(single_gradients(losses, parameters)):
            norms.append(squared_norm(gradient))
            one[i % folds] += torch.cat([part.flatten() for part in gradient])
        squares.append(torch.stack(norms).reshape(-1, folds).T.cpu())
        sums.append(one.cpu())
    count = len(sums)
    return GradientSums(torch.stack(squares).numpy(), gram(torch.cat(sums)).reshape(count, folds, count, folds).numpy())


def gram(vectors: Tensor) -> Tensor:
    """Inner products [n, n] of vectors [n, P], in float64."""
    parts = (chunk.double() for chunk in vectors.split(CHUNK, dim=1))
    return torch.stack([part @ part.T for part in parts]).sum(0)
