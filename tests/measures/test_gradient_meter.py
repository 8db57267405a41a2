"""Measuring gradients of a network over cells: draws by the seed alone, lengths and means of what was drawn."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from diffusers.models.unets.unet_2d import UNet2DModel

from unequal.data.prepared import PreparedData, tensor_of
from unequal.diffusion.schedule import NoiseSchedule
from unequal.timesteps.partition import Partition, TimestepRange
from unequal.training.gradient_meter import GradientMeter
from unequal.training.objectives.objective import SingleHead

CELLS = Partition([(0, 0), (1, 20), (21, 49)])
OBJECTIVE = SingleHead("epsilon", NoiseSchedule.linear(50))


@pytest.fixture
def meter(prepared: PreparedData, tiny_net: Callable[..., UNet2DModel]) -> Callable[..., GradientMeter]:
    def make(seed: int = 0, dropout: float = 0.0) -> GradientMeter:
        net = tiny_net(dropout=dropout).train().requires_grad_(True)
        return GradientMeter(net, OBJECTIVE, tensor_of(prepared.train), 4, single_images=8, mean_images=16, seed=seed)

    return make


def test_a_sample_is_made_of_cells_and_folds(meter: Callable[..., GradientMeter]) -> None:
    sample = meter().sample(CELLS)
    assert sample.squares.shape == (3, 4, 2)
    assert sample.products.shape == (3, 4, 3, 4)
    table = sample.products.reshape(12, 12)
    np.testing.assert_allclose(table, table.T)
    assert (np.linalg.eigvalsh(table) > -1e-9 * table.max()).all()


def test_timesteps_are_drawn_inside_the_cell(meter: Callable[..., GradientMeter]) -> None:
    generator = np.random.default_rng(0)
    for cell in CELLS:
        batch = meter().drawn(cell, 400, generator)
        assert (int(batch.timesteps.min()), int(batch.timesteps.max())) == cell
        assert torch.equal(batch.weights, torch.ones(400))


def test_a_cell_does_not_depend_on_the_others(meter: Callable[..., GradientMeter]) -> None:
    whole, alone = meter(dropout=0.3).sample(CELLS), meter(dropout=0.3).sample(CELLS[1:2])
    np.testing.assert_array_equal(whole.squares[1], alone.squares[0])
    np.testing.assert_allclose(whole.products[1, :, 1], alone.products[0, :, 0], rtol=1e-9)
    assert not np.array_equal(meter(seed=1).sample(CELLS[1:2]).squares, alone.squares)


def test_lengths_and_means_are_of_the_same_loss(meter: Callable[..., GradientMeter]) -> None:
    """With one image and one timestep, single gradients and means differ by the noise alone: E‖g‖² > ‖μ‖² > 0."""
    one, cell = meter(), TimestepRange(10, 10)
    moments = (
        GradientMeter(one.net, OBJECTIVE, one.images[:1], folds=4, single_images=64, mean_images=256, seed=0)
        .sample([cell])
        .moments()
    )
    assert moments.second[0] > moments.products[0, 0] > 0
    generator = np.random.default_rng(5)
    batch = GradientMeter(one.net, OBJECTIVE, one.images[:1], 4, 4, 4, 0).drawn(cell, 512, generator)
    gradient = torch.autograd.grad(OBJECTIVE(one.net, batch).weighted.mean(), list(one.net.parameters()))
    square = float(sum(part.double().square().sum() for part in gradient))
    assert moments.products[0, 0] == pytest.approx(square, rel=0.2)
