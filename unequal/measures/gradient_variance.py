"""How much a batch's gradient scatters under a timestep sampler, from the gradients' moments in cells of timesteps.

A batch of B images at timesteps t_i with importance weights w_i has the gradient ĝ = Σ_i w_i·g_i / B. Let W_c be the
sum of its weights in cell c of timesteps, and let gradients within a cell be drawn alike, whatever their weight. Then

    E ĝ = Σ_c E[W_c]/B · μ_c,    E‖ĝ − Eĝ‖² = Σ_c E[Σ_{i∈c} w_i²]/B² · V_c + Σ_{b,c} Cov(W_b, W_c)/B² · μ_b·μ_c,

with the cell's mean gradient μ_c and the trace V_c of the covariance of its single gradients. The first sum is noise
of images within cells, which only more images or other weights reduce; the second is the scatter of timesteps
between cells, which even draws take away. A sampler enters by the three statistics of W alone: its `Exposure`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from unequal.measures.gradients import GradientSample, Moments
from unequal.timesteps.samplers import IndependentSampler, StratifiedSampler, TimestepSampler

#: Batches of timesteps that are drawn where a sampler's covariance is not known in closed form.
SIMULATED_BATCHES = 4000

Cells = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Exposure:
    """How the batches of a sampler fall on cells.

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
    """Of the gradient of one batch, by cells: `within` and `between` [C] sum to E‖ĝ − Eĝ‖².

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
    """A sampler's batches beside uniform ones of the same size, each figure with its standard error.

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
    sampler: TimestepSampler, cells: Cells, batch_size: int, generator: np.random.Generator, images_seen: int = 0
) -> Exposure:
    """The exposure of a sampler; where its covariance is known in closed form, nothing is drawn.

    Args:
        sampler: of timesteps 0 … T−1.
        cells: inclusive ranges that cover them in order; none may reach over a border of stratified slots.
        batch_size: B.
        generator: of simulated batches.
        images_seen: where in a training a sampler that changes is looked at.
    """
    if isinstance(sampler, StratifiedSampler):
        return stratified_exposure(sampler.slots, sampler.importance(), cells, batch_size)
    independent = independent_exposure(sampler.at(images_seen), sampler.importance(images_seen), cells, batch_size)
    if isinstance(sampler, IndependentSampler):
        return independent
    batches = [sampler.sample(batch_size, generator, images_seen) for _ in range(SIMULATED_BATCHES)]
    drawn = np.stack([batch.timesteps for batch in batches]), np.stack([batch.weights for batch in batches])
    # Single draws have the same probabilities, whatever the batch around them.
    return replace(independent, covariance=simulated_exposure(*drawn, cells).covariance)


def settle(sampler: TimestepSampler, losses: np.ndarray, moments: Moments, cells: Cells) -> None:
    """Teach a sampler what it would learn of a model by training it: losses [T, n], and lengths of gradients."""
    timesteps, firsts = np.arange(len(losses)), [first for first, _ in cells]
    for draw in losses.T if sampler.learns else ():
        sampler.learn(timesteps, draw)
    if sampler.refresh_images:
        home = np.searchsorted(firsts, timesteps, side="right") - 1
        sampler.refresh(lambda asked: moments.second[home[asked]], np.random.default_rng(0))


def independent_exposure(probabilities: np.ndarray, weights: np.ndarray, cells: Cells, batch_size: int) -> Exposure:
    """Of independent draws from p_t with weights w_t, both [T]: Cov(W_b, W_c) = B·(δ_bc·Σ_{t∈c} p·w² − m_b·m_c)."""
    mean, squares = (over(cells, probabilities * weights**power) for power in (1, 2))
    return Exposure(mean, squares / batch_size, (np.diag(squares) - np.outer(mean, mean)) / batch_size)


def stratified_exposure(slots: np.ndarray, weights: np.ndarray, cells: Cells, batch_size: int) -> Exposure:
    """Of `StratifiedSampler`: ⌊B/K⌋ draws from each of K slots, uniform within it, and one more from B mod K of them.

    The remainder goes to slots drawn without replacement, f = (B mod K)/K of them: the number of draws of one
    slot has the variance f·(1 − f), those of two the covariance −f·(1 − f)/(K − 1).
    """
    count = len(slots)
    firsts = np.array([first for first, _ in cells])
    home = np.searchsorted(slots[:, 0], firsts, side="right") - 1
    weight = weights[firsts]
    inside = over(cells, np.ones(len(weights))) / (slots[home, 1] - slots[home, 0] + 1)
    rest = batch_size % count / count
    same = home[:, None] == home[None]
    spread = rest * (1 - rest) * np.where(same, 1.0, -1 / max(1, count - 1))
    draws = batch_size / count
    # Given its number of draws, a slot's cells share them as a multinomial does.
    covariance = draws * np.diag(inside) + (spread - draws * same) * np.outer(inside, inside)
    scale = np.outer(weight, weight) / batch_size**2
    return Exposure(weight * inside / count, weight**2 * inside / (count * batch_size), scale * covariance)


def simulated_exposure(timesteps: np.ndarray, weights: np.ndarray, cells: Cells) -> Exposure:
    """Of batches that were drawn: timesteps and weights, both [batches, B]."""
    batches, size = timesteps.shape
    home = np.searchsorted([first for first, _ in cells], timesteps, side="right") - 1
    flat = (np.arange(batches)[:, None] * len(cells) + home).ravel()
    sums, squares = (
        np.bincount(flat, weights.ravel() ** power, batches * len(cells)).reshape(batches, len(cells)) / size**power
        for power in (1, 2)
    )
    return Exposure(sums.mean(0), squares.mean(0), np.cov(sums, rowvar=False))


def shares_of(cells: Cells) -> np.ndarray:
    """The share of all timesteps that each cell holds, [C]."""
    lengths = np.array([last - first + 1 for first, last in cells])
    return np.asarray(lengths / lengths.sum())


def mixture(cells: Cells, slots: Cells) -> np.ndarray:
    """Shares [K, C] of cells in the slots that they make up: rows that sum to 1."""
    inside = np.array([[first <= cell[0] <= last for cell in cells] for first, last in slots]) * shares_of(cells)
    return np.asarray(inside / inside.sum(1, keepdims=True))


def over(cells: Cells, table: np.ndarray) -> np.ndarray:
    """Sum of a table [T] over each cell, [C]."""
    return np.add.reduceat(table, [first for first, _ in cells])


def split(slots: Cells, parts: int) -> list[tuple[int, int]]:
    """Cells that no slot's border cuts: each slot in up to `parts` ranges, as equal as they can be."""
    cells = []
    for first, last in slots:
        edges = np.linspace(first, last + 1, min(parts, last + 1 - first) + 1).round().astype(int)
        cells += [(int(low), int(high) - 1) for low, high in pairwise(edges)]
    return cells
