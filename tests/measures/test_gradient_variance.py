"""Scatter of batches' gradients: closed forms against drawn batches, of made-up gradients and of a network's."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from diffusers.models.unets.unet_2d import UNet2DModel

from unequal.data.prepared import PreparedData, tensor_of
from unequal.diffusion.schedule import NoiseSchedule
from unequal.measures.gradients import (
    GradientSample,
    Moments,
    compare,
    exposure_of,
    mixture,
    scatter,
    simulated_exposure,
)
from unequal.timesteps.draws import LowDiscrepancy, Stratified, equal_over
from unequal.timesteps.partition import Partition
from unequal.timesteps.samplers import AdaptiveSampler, TimestepSampler, normalised, tilt, uniform
from unequal.training.batches import Batch, draw_at
from unequal.training.gradient_meter import GradientMeter
from unequal.training.objectives.objective import SingleHead

pytestmark = pytest.mark.slow

T = 50
SLOTS = Partition([(0, 2), (3, 9), (10, 24), (25, 49)])
CELLS = SLOTS.split(3)
SHARES = CELLS.shares
LOSS = 1 / (1 + np.arange(T))
CPU = torch.device("cpu")


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
each_sampler = pytest.mark.parametrize("name", SAMPLERS)
in_closed_form = pytest.mark.parametrize(
    "name", [name for name in SAMPLERS if name not in ("low_discrepancy", "adaptive")]
)


def home(timesteps: np.ndarray) -> np.ndarray:
    """The cell of each timestep."""
    return np.searchsorted([first for first, _ in CELLS], timesteps, side="right") - 1


@in_closed_form
@pytest.mark.parametrize("batch_size", [3, 4, 7])
def test_closed_forms_are_what_drawn_batches_show(name: str, batch_size: int) -> None:
    sampler, generator = SAMPLERS[name], np.random.default_rng(3)
    known = exposure_of(sampler, CELLS, batch_size, generator)
    batches = [sampler.sample(batch_size, generator) for _ in range(20_000)]
    seen = simulated_exposure(np.stack([b.timesteps for b in batches]), np.stack([b.weights for b in batches]), CELLS)
    scale = np.sqrt(np.outer(known.squares, known.squares))
    np.testing.assert_allclose(seen.mean, known.mean, atol=0.05 * known.mean.max())
    np.testing.assert_allclose(seen.squares, known.squares, atol=0.06 * known.squares.max())
    assert (np.abs(seen.covariance - known.covariance) < 0.05 * scale + 0.03 * scale.max()).all()


@in_closed_form
def test_closed_forms_draw_nothing(name: str) -> None:
    generator = np.random.default_rng(3)
    before = generator.bit_generator.state
    exposure_of(SAMPLERS[name], CELLS, 4, generator)
    assert generator.bit_generator.state == before


@each_sampler
def test_the_variance_is_that_of_drawn_gradients(name: str) -> None:
    """Every cell has its own mean and noise; batches are drawn, their gradients' scatter is counted."""
    generator = np.random.default_rng(7)
    means = generator.normal(size=(len(CELLS), 4)) * np.linspace(3, 0.3, len(CELLS))[:, None]
    noise = np.linspace(2, 0.2, len(CELLS))
    moments = Moments(np.square(means).sum(1) + 4 * noise**2, means @ means.T)
    batch_size, batches = 6, 8000
    found = scatter(exposure_of(SAMPLERS[name], CELLS, batch_size, generator), moments, SHARES)
    drawn = [SAMPLERS[name].sample(batch_size, generator) for _ in range(batches)]
    timesteps, weights = np.stack([b.timesteps for b in drawn]), np.stack([b.weights for b in drawn])
    cell = home(timesteps)
    single = means[cell] + noise[cell][..., None] * generator.normal(size=(*cell.shape, 4))
    gradients = (weights[..., None] * single).mean(1)
    assert found.variance == pytest.approx(gradients.var(0).sum(), rel=0.06)
    uniform = (SHARES[:, None] * means).sum(0)
    assert found.bias == pytest.approx(np.square(gradients.mean(0) - uniform).sum(), abs=0.02)


@pytest.mark.parametrize("batch_size", [1, 4, 10])
def test_stratified_has_no_more_variance_than_its_probabilities_drawn_independently(batch_size: int) -> None:
    generator = np.random.default_rng(11)
    means = generator.normal(size=(len(CELLS), 4)) * 2
    moments = Moments(np.square(means).sum(1) + 1, means @ means.T)
    stratified = SAMPLERS["stratified"]
    alike = TimestepSampler(stratified.probabilities, True)
    even, independent = (
        scatter(exposure_of(one, CELLS, batch_size, generator), moments, SHARES).variance for one in (stratified, alike)
    )
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
    means = np.linspace(1, 2, len(CELLS))
    products = np.einsum("c,f,d,g->cfdg", means, np.ones(3), means, np.ones(3))
    squares = np.ones((len(CELLS), 3, 2)) * 10
    sample = GradientSample(squares, products)
    generator = np.random.default_rng(0)
    own, uniform = (exposure_of(SAMPLERS[name], CELLS, 5, generator) for name in ("near_data", "uniform"))
    exact = compare(own, uniform, sample, SHARES)
    moments = Moments(np.full(len(CELLS), 10.0), np.outer(means, means))
    own_scatter, plain = (scatter(one, moments, SHARES) for one in (own, uniform))
    assert exact["variance"] == pytest.approx(own_scatter.variance)
    assert exact["relative_variance"] == pytest.approx(own_scatter.variance / plain.variance)
    assert exact["bias"] == pytest.approx(own_scatter.bias)
    assert exact["mean_square"] == pytest.approx((own.mean @ means) ** 2)
    assert all(exact[f"{name}_stderr"] == pytest.approx(0, abs=1e-9) for name in ("variance", "bias"))
    squares[:, 0] *= 2
    assert compare(own, uniform, sample, SHARES)["variance_stderr"] > 0.1 * exact["variance"]


def test_slots_are_mixtures_of_their_cells() -> None:
    mixing = mixture(CELLS, SLOTS)
    np.testing.assert_allclose(mixing.sum(1), 1)
    table = np.arange(T, dtype=float)
    by_cell = np.array([table[first : last + 1].mean() for first, last in CELLS])
    np.testing.assert_allclose(mixing @ by_cell, [table[first : last + 1].mean() for first, last in SLOTS])


@pytest.mark.slow
@pytest.mark.thorough
def test_a_network_scatters_as_its_moments_say(prepared: PreparedData, tiny_net: Callable[..., UNet2DModel]) -> None:
    """Brute force: 200 batches of each sampler, with the whole gradient of each."""
    net = tiny_net().requires_grad_(True)
    parameters, images = list(net.parameters()), tensor_of(prepared.train)
    objective = SingleHead("epsilon", NoiseSchedule.linear(T))
    generator = np.random.default_rng(13)

    meter = GradientMeter(net, objective, images, folds=4, single_images=24, mean_images=64, seed=0)
    moments = meter.sample(CELLS).moments()
    for name in ("stratified", "adaptive"):
        found = scatter(exposure_of(SAMPLERS[name], CELLS, 4, generator), moments, SHARES)
        gradients = []
        for _ in range(200):
            drawn = SAMPLERS[name].sample(4, generator)
            batch = draw_at(images, drawn.timesteps, generator, CPU)
            weighted = Batch(batch.x0, batch.epsilon, batch.timesteps, torch.from_numpy(drawn.weights).float())
            whole = torch.autograd.grad(objective(net, weighted).weighted.mean(), parameters)
            gradients.append(torch.cat([part.flatten() for part in whole]))
        seen = float(torch.stack(gradients).var(0).sum())
        assert found.variance == pytest.approx(seen, rel=0.2), name
