"""Gradients of losses, their moments over cells of timesteps, and the scatter of a batch's gradient under a sampler.

The cost or gain of a timestep sampler follows from few numbers: the lengths of single images' gradients in each range
of timesteps, and the products of the ranges' mean gradients.

A batch of B images at timesteps t_i with importance weights w_i has the gradient ĝ = Σ_i w_i·g_i / B. Let W_c be the
sum of its weights in cell c of timesteps, and let gradients within a cell be drawn from one distribution, whatever
their weight. Then

    E ĝ = Σ_c E[W_c]/B · μ_c,    E‖ĝ − Eĝ‖² = Σ_c E[Σ_{i∈c} w_i²]/B² · V_c + Σ_{b,c} Cov(W_b, W_c)/B² · μ_b·μ_c,

with the cell's mean gradient μ_c and the trace V_c of the covariance of its single gradients. The first sum is noise
of images within cells, which only more images or other weights reduce; the second is the scatter of timesteps
between cells, which even draws take away. A sampler enters by the three statistics of W alone: its `Exposure`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from unequal.timesteps.draws import Independent, Stratified
from unequal.timesteps.partition import Partition
from unequal.timesteps.samplers import TimestepSampler

Gradient = tuple[Tensor, ...]
#: Parameters that are multiplied at once in float64.
CHUNK = 1 << 20
#: Batches of timesteps that are drawn where a sampler's covariance is not known in closed form.
SIMULATED_BATCHES = 4000


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
class GradientSample:
    """Measured gradients of C cells, in F folds of separate images.

    Attributes:
        squares: [C, F, n], ‖g‖² of single images.
        products: [C, F, C, F], inner products of the folds' mean gradients.
    """

    squares: np.ndarray
    products: np.ndarray

    def moments(self, left_out: int | None = None) -> Moments:
        """Moments from all folds, or from all but one; a cell's own product takes pairs of different folds alone."""
        kept = [fold for fold in range(self.squares.shape[1]) if fold != left_out]
        table = self.products[:, kept][:, :, :, kept]
        products = table.mean((1, 3))
        own = np.einsum("cfcg->cfg", table)
        pairs = own.sum((1, 2)) - np.einsum("cff->c", own)
        np.fill_diagonal(products, pairs / (len(kept) * (len(kept) - 1)))
        return Moments(self.squares[:, kept].mean((1, 2)), products)

    def estimate(self, figure: Callable[[Moments], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """A figure of the moments and its standard error, by leaving out one fold after the other (jackknife)."""
        folds = self.squares.shape[1]
        others = np.stack([figure(self.moments(fold)) for fold in range(folds)])
        return figure(self.moments()), np.sqrt((folds - 1) * others.var(0))


@dataclass(frozen=True)
class Exposure:
    """Exposure of cells to the batches of a sampler.

    Attributes:
        mean: [C], E[W_c]/B.
        squares: [C], E[Σ_{i∈c} w_i²]/B².
        covariance: [C, C], Cov(W_b, W_c)/B².
    """

    mean: np.ndarray
    squares: np.ndarray
    covariance: np.ndarray


@dataclass(frozen=True)
class Scatter:
    """Variance of the gradient of one batch, by cells: `within` and `between` [C] sum to E‖ĝ − Eĝ‖².

    `bias` is ‖Eĝ − g‖², the squared distance to the gradient g of uniform timesteps; `mean_square` is ‖Eĝ‖².
    """

    within: np.ndarray
    between: np.ndarray
    bias: float
    mean_square: float

    @property
    def variance(self) -> float:
        """E‖ĝ − Eĝ‖²."""
        return float(self.within.sum() + self.between.sum())


def scatter(exposure: Exposure, moments: Moments, shares: np.ndarray) -> Scatter:
    """The scatter of a sampler's batches over cells that hold these shares [C] of all timesteps."""
    off = exposure.mean - shares
    return Scatter(
        within=exposure.squares * moments.variance,
        between=(exposure.covariance * moments.products).sum(1),
        bias=float(off @ moments.products @ off),
        mean_square=float(exposure.mean @ moments.products @ exposure.mean),
    )


def compare(exposure: Exposure, uniform: Exposure, sample: GradientSample, shares: np.ndarray) -> dict[str, float]:
    """Compare a sampler's batches with uniform ones of the same size; each figure with its standard error.

    `relative_variance` is of uniform's; `between_share` is what the scatter of timesteps has of the variance.
    """

    def figures(moments: Moments) -> np.ndarray:
        own, plain = scatter(exposure, moments, shares), scatter(uniform, moments, shares)
        between = own.between.sum() / own.variance
        return np.array([own.variance, own.variance / plain.variance, between, own.bias, own.mean_square])

    names = ("variance", "relative_variance", "between_share", "bias", "mean_square")
    values, errors = sample.estimate(figures)
    found = zip(names, values.tolist(), errors.tolist(), strict=True)
    return {key: number for name, value, error in found for key, number in ((name, value), (f"{name}_stderr", error))}


def exposure_of(
    sampler: TimestepSampler, cells: Partition, batch_size: int, generator: np.random.Generator, images_trained: int = 0
) -> Exposure:
    """The exposure of a sampler; where its covariance is known in closed form, nothing is drawn.

    Args:
        sampler: of timesteps 0 … T−1.
        cells: of the timesteps; none may reach over a border of stratified slots.
        batch_size: B.
        generator: of simulated batches.
        images_trained: where in a training a sampler that changes is looked at.
    """
    if isinstance(sampler.draw, Stratified):
        return stratified_exposure(sampler.draw.parts, sampler.importance(), cells, batch_size)
    independent = independent_exposure(
        sampler.at(images_trained), sampler.importance(images_trained), cells, batch_size
    )
    if type(sampler.draw) is Independent:
        return independent
    batches = [sampler.sample(batch_size, generator, images_trained) for _ in range(SIMULATED_BATCHES)]
    found = np.stack([batch.timesteps for batch in batches]), np.stack([batch.weights for batch in batches])
    # Single draws have the same probabilities, whatever the batch around them.
    return replace(independent, covariance=simulated_exposure(*found, cells).covariance)


def independent_exposure(probabilities: np.ndarray, weights: np.ndarray, cells: Partition, batch_size: int) -> Exposure:
    """Exposure by independent draws from p_t with weights w_t: Cov(W_b, W_c) = B·(δ_bc·Σ_{t∈c} p·w² − m_b·m_c)."""
    mean, squares = (over(cells, probabilities * weights**power) for power in (1, 2))
    return Exposure(mean, squares / batch_size, (np.diag(squares) - np.outer(mean, mean)) / batch_size)


def stratified_exposure(slots: Partition, weights: np.ndarray, cells: Partition, batch_size: int) -> Exposure:
    """Stratified draws: ⌊B/K⌋ draws from each of K slots, uniform within it, and one more from B mod K of them.

    The remainder goes to slots drawn without replacement, f = (B mod K)/K of them: the number of draws of one
    slot has the variance f·(1 − f), those of two the covariance −f·(1 − f)/(K − 1).
    """
    count = len(slots)
    home, weight = slots.of(cells.firsts), weights[cells.firsts]
    inside = cells.lengths / slots.lengths[home]
    rest = batch_size % count / count
    same = home[:, None] == home[None]
    spread = rest * (1 - rest) * np.where(same, 1.0, -1 / max(1, count - 1))
    draws = batch_size / count
    # Given its number of draws, a slot's cells share them as a multinomial does.
    covariance = draws * np.diag(inside) + (spread - draws * same) * np.outer(inside, inside)
    scale = np.outer(weight, weight) / batch_size**2
    return Exposure(weight * inside / count, weight**2 * inside / (count * batch_size), scale * covariance)


def simulated_exposure(timesteps: np.ndarray, weights: np.ndarray, cells: Partition) -> Exposure:
    """Exposure by drawn batches: timesteps and weights, both [batches, B]."""
    batches, size = timesteps.shape
    flat = (np.arange(batches)[:, None] * len(cells) + cells.of(timesteps)).ravel()
    sums, squares = (
        np.bincount(flat, weights.ravel() ** power, batches * len(cells)).reshape(batches, len(cells)) / size**power
        for power in (1, 2)
    )
    return Exposure(sums.mean(0), squares.mean(0), np.cov(sums, rowvar=False))


def mixture(cells: Partition, slots: Partition) -> np.ndarray:
    """Shares [K, C] of cells in the slots that they make up: rows that sum to 1."""
    inside = np.array([[slot.holds(cell.first) for cell in cells] for slot in slots]) * cells.shares
    return np.asarray(inside / inside.sum(1, keepdims=True))


def over(cells: Partition, table: np.ndarray) -> np.ndarray:
    """Sum of a table [T] over each cell, [C]."""
    return np.add.reduceat(table, cells.firsts)
