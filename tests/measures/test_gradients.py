"""Gradients and their moments: against stacked gradients, and against populations that are known whole."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from unequal.measures import gradients
from unequal.measures.gradients import (
    GradientSample,
    Moments,
    compare,
    exposure_of,
    flat_gradients,
    gram,
    scatter,
    simulated_exposure,
    squared_norms,
)
from unequal.timesteps.draws import LowDiscrepancy, Stratified, equal_over
from unequal.timesteps.partition import Partition
from unequal.timesteps.samplers import AdaptiveSampler, TimestepSampler, normalised, tilt, uniform

pytestmark = pytest.mark.slow

CELLS, COUNT, FOLDS = 3, 8, 4


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))


def losses(net: nn.Module, inputs: Tensor) -> Iterator[Tensor]:
    for one in inputs:
        yield net(one).square().sum()


def stacked(net: nn.Module, inputs: Tensor) -> Tensor:
    rows = []
    for loss in losses(net, inputs):
        net.zero_grad()
        loss.backward()
        rows.append(torch.cat([parameter.grad.flatten() for parameter in net.parameters()]))
    net.zero_grad()
    return torch.stack(rows)


def inputs() -> Tensor:
    return torch.randn(COUNT, 3, generator=torch.Generator().manual_seed(1))


def sample_of(vectors: np.ndarray, folds: int) -> GradientSample:
    """From gradients [C, n, P], every `folds`-th in one fold, of which both lengths and means are taken."""
    folded = np.stack([vectors[:, fold::folds] for fold in range(folds)], 1)
    means = folded.mean(2).reshape(-1, vectors.shape[2])
    return GradientSample(np.square(folded).sum(3), (means @ means.T).reshape((len(vectors), folds) * 2))


def test_gradients_are_those_of_backward() -> None:
    """Those of parameters that a loss does not touch are 0."""
    net, expected = network(), stacked(network(), inputs())
    parameters = [*net.parameters(), nn.Parameter(torch.ones(4))]
    found = flat_gradients(losses(net, inputs()), parameters)
    torch.testing.assert_close(found, torch.cat([expected, torch.zeros(COUNT, 4)], 1))
    torch.testing.assert_close(squared_norms(losses(net, inputs()), parameters), expected.double().square().sum(1))
    assert all(parameter.grad is None for parameter in parameters)


def test_inner_products_do_not_depend_on_the_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = torch.randn(4, 23)
    whole = gram(vectors)
    monkeypatch.setattr(gradients, "CHUNK", 7)
    torch.testing.assert_close(gram(vectors), whole)
    torch.testing.assert_close(whole, vectors.double() @ vectors.double().T)


def test_a_cells_own_product_takes_pairs_of_different_folds() -> None:
    vectors = np.random.default_rng(0).normal(size=(2, 6, 5)) + np.array([[[1.0]], [[-0.5]]])
    moments, fold = sample_of(vectors, 3).moments(), np.arange(6) % 3
    for cell in range(2):
        pairs = [vectors[cell, i] @ vectors[cell, j] for i in range(6) for j in range(6) if fold[i] != fold[j]]
        assert moments.products[cell, cell] == pytest.approx(np.mean(pairs))
        assert moments.second[cell] == pytest.approx(np.square(vectors[cell]).sum(1).mean())
    cross = [vectors[0, i] @ vectors[1, j] for i in range(6) for j in range(6)]
    np.testing.assert_allclose([moments.products[0, 1], moments.products[1, 0]], np.mean(cross))


def test_a_fold_that_is_left_out_leaves_no_trace() -> None:
    vectors = np.random.default_rng(0).normal(size=(2, 6, 5))
    spoiled = vectors.copy()
    spoiled[:, 1::3] = np.nan
    expected = sample_of(np.delete(vectors, [1, 4], axis=1), 2).moments()
    found = sample_of(spoiled, 3).moments(left_out=1)
    np.testing.assert_allclose(found.products, expected.products)
    np.testing.assert_allclose(found.second, expected.second)


def population() -> np.ndarray:
    generator = np.random.default_rng(5)
    return generator.normal(generator.normal(size=(CELLS, 1, 6)), 2.0, size=(CELLS, 30, 6))


def drawn(seed: int) -> GradientSample:
    index = np.random.default_rng(seed).integers(30, size=(CELLS, COUNT))
    return sample_of(np.take_along_axis(population(), index[..., None], 1), FOLDS)


def test_moments_are_without_bias() -> None:
    found = [drawn(seed).moments() for seed in range(2000)]
    means = population().mean(1)
    for samples, truth in (
        (np.stack([one.products for one in found]), means @ means.T),
        (np.stack([one.variance for one in found]), population().var(1).sum(1)),
    ):
        error = samples.std(0) / np.sqrt(len(samples))
        assert (np.abs(samples.mean(0) - truth) < 4 * error).all()


def test_jackknife_errors_are_of_the_size_of_the_scatter() -> None:
    for figure in (lambda one: one.second, lambda one: one.products):
        found = [drawn(seed).estimate(figure) for seed in range(400)]
        scatter = np.std([value for value, _ in found], axis=0)
        errors = np.sqrt(np.mean([np.square(error) for _, error in found], axis=0))
        np.testing.assert_allclose(errors, scatter, rtol=0.35)


def test_cosines_of_clear_gradients_are_those_of_their_means() -> None:
    directions = np.array([[1.0, 0, 0], [1, 1, 0], [-1, 0, 0]])
    noise = np.random.default_rng(2).normal(size=(CELLS, 4000, 3))
    moments = sample_of(5 * directions[:, None] + noise, FOLDS).moments()
    np.testing.assert_allclose(moments.cosines, [[1, 0.707, -1], [0.707, 1, -0.707], [-1, -0.707, 1]], atol=0.01)


def test_a_mean_that_is_lost_in_noise_has_no_cosine() -> None:
    moments = Moments(np.ones(2), np.array([[-0.1, 0.2], [0.2, 1.0]]))
    assert np.isnan(moments.cosines[0]).all() and np.isnan(moments.cosines[0, 1])
    assert moments.cosines[1, 1] == 1


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1))
def test_merged_cells_have_the_moments_of_the_mixture(seed: int) -> None:
    """Population moments, so that mixing is exact: E‖g‖² and μ of a mixture are means."""
    vectors = np.random.default_rng(seed).normal(size=(4, 10, 3)) + np.arange(4)[:, None, None]
    means = vectors.mean(1)
    moments = Moments(np.square(vectors).sum(2).mean(1), means @ means.T)
    merged = moments.merged(np.array([[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]]))
    halves = vectors.reshape(2, 20, 3)
    np.testing.assert_allclose(merged.second, np.square(halves).sum(2).mean(1))
    np.testing.assert_allclose(merged.products, halves.mean(1) @ halves.mean(1).T)
    np.testing.assert_allclose(merged.variance, halves.var(1).sum(1))


T = 50
SLOTS = Partition([(0, 2), (3, 9), (10, 24), (25, 49)])
RANGES = SLOTS.split(3)
SHARES = RANGES.shares
LOSS = 1 / (1 + np.arange(T))


def adaptive() -> TimestepSampler:
    sampler = AdaptiveSampler(SLOTS, refresh_images=1, images_per_bin=1, memory=0.0, uniform_share=0.1)
    sampler.refresh(lambda timesteps: np.array([9.0, 4.0, 1.0, 0.25]), np.random.default_rng(0))
    return sampler


SAMPLERS: dict[str, TimestepSampler] = {
    "uniform": TimestepSampler(uniform(T)),
    "loss": TimestepSampler(normalised(LOSS), True),
    "near_data": TimestepSampler(normalised(tilt(T, 2.0)[::-1])),
    "stratified": TimestepSampler(equal_over(SLOTS), True, draw=Stratified(SLOTS)),
    "stratified_biased": TimestepSampler(equal_over(SLOTS), draw=Stratified(SLOTS)),
    "low_discrepancy": TimestepSampler(uniform(T), draw=LowDiscrepancy()),
    "adaptive": adaptive(),
}


@pytest.mark.parametrize("name", [name for name in SAMPLERS if name not in ("low_discrepancy", "adaptive")])
@pytest.mark.parametrize("batch_size", [3, 7])
def test_closed_forms_are_what_drawn_batches_show(name: str, batch_size: int) -> None:
    sampler, generator = SAMPLERS[name], np.random.default_rng(3)
    known = exposure_of(sampler, RANGES, batch_size, generator)
    batches = [sampler.sample(batch_size, generator) for _ in range(8_000)]
    seen = simulated_exposure(np.stack([b.timesteps for b in batches]), np.stack([b.weights for b in batches]), RANGES)
    scale = np.sqrt(np.outer(known.squares, known.squares))
    np.testing.assert_allclose(seen.mean, known.mean, atol=0.05 * known.mean.max())
    np.testing.assert_allclose(seen.squares, known.squares, atol=0.06 * known.squares.max())
    assert (np.abs(seen.covariance - known.covariance) < 0.05 * scale + 0.03 * scale.max()).all()


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_variance_is_that_of_drawn_gradients(name: str) -> None:
    """Every cell has its own mean and noise; batches are drawn, their gradients' scatter is counted."""
    generator = np.random.default_rng(7)
    means = generator.normal(size=(len(RANGES), 4)) * np.linspace(3, 0.3, len(RANGES))[:, None]
    noise = np.linspace(2, 0.2, len(RANGES))
    moments = Moments(np.square(means).sum(1) + 4 * noise**2, means @ means.T)
    batch_size, batches = 6, 8000
    found = scatter(exposure_of(SAMPLERS[name], RANGES, batch_size, generator), moments, SHARES)
    drawn = [SAMPLERS[name].sample(batch_size, generator) for _ in range(batches)]
    timesteps, weights = np.stack([b.timesteps for b in drawn]), np.stack([b.weights for b in drawn])
    cell = RANGES.of(timesteps)
    single = means[cell] + noise[cell][..., None] * generator.normal(size=(*cell.shape, 4))
    gradients = (weights[..., None] * single).mean(1)
    assert found.variance == pytest.approx(gradients.var(0).sum(), rel=0.06)
    uniform = (SHARES[:, None] * means).sum(0)
    assert found.bias == pytest.approx(np.square(gradients.mean(0) - uniform).sum(), abs=0.02)


@pytest.mark.parametrize("batch_size", [1, 4, 10])
def test_stratified_has_no_more_variance_than_its_probabilities_drawn_independently(batch_size: int) -> None:
    generator = np.random.default_rng(11)
    means = generator.normal(size=(len(RANGES), 4)) * 2
    moments = Moments(np.square(means).sum(1) + 1, means @ means.T)
    samplers = SAMPLERS["stratified"], TimestepSampler(SAMPLERS["stratified"].probabilities, True)
    exposures = (exposure_of(one, RANGES, batch_size, generator) for one in samplers)
    even, independent = (scatter(one, moments, SHARES).variance for one in exposures)
    assert even == pytest.approx(independent) if batch_size == 1 else even < independent


def test_with_as_many_draws_as_slots_only_what_is_within_slots_is_left() -> None:
    moments = Moments(np.full(len(SLOTS), 5.0), np.full((len(SLOTS), len(SLOTS)), 2.0))
    shares = SLOTS.shares
    found = scatter(exposure_of(SAMPLERS["stratified"], SLOTS, 8, np.random.default_rng(0)), moments, shares)
    np.testing.assert_allclose(found.between, 0, atol=1e-12)
    assert found.variance == pytest.approx(3 * (shares**2).sum() / (8 / len(SLOTS)))
    assert found.bias == pytest.approx(0, abs=1e-12)


def test_figures_are_compared_with_uniform_ones_and_have_errors() -> None:
    """Folds that agree leave no error, and one with longer gradients leaves some."""
    means = np.linspace(1, 2, len(RANGES))
    products = np.einsum("c,f,d,g->cfdg", means, np.ones(3), means, np.ones(3))
    squares = np.ones((len(RANGES), 3, 2)) * 10
    sample = GradientSample(squares, products)
    generator = np.random.default_rng(0)
    own, uniform = (exposure_of(SAMPLERS[name], RANGES, 5, generator) for name in ("near_data", "uniform"))
    exact = compare(own, uniform, sample, SHARES)
    moments = Moments(np.full(len(RANGES), 10.0), np.outer(means, means))
    own_scatter, plain = (scatter(one, moments, SHARES) for one in (own, uniform))
    assert exact["variance"] == pytest.approx(own_scatter.variance)
    assert exact["relative_variance"] == pytest.approx(own_scatter.variance / plain.variance)
    assert exact["bias"] == pytest.approx(own_scatter.bias)
    assert exact["mean_square"] == pytest.approx((own.mean @ means) ** 2)
    assert all(exact[f"{name}_stderr"] == pytest.approx(0, abs=1e-9) for name in ("variance", "bias"))
    squares[:, 0] *= 2
    assert compare(own, uniform, sample, SHARES)["variance_stderr"] > 0.1 * exact["variance"]
