"""A loss on fixed draws: the same at each call and however it is cut, and of evenly spread timesteps."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from unequal.data.prepared import PreparedData, tensor_of
from unequal.diffusion.schedule import NoiseSchedule
from unequal.measures.landscape import hessian_product
from unequal.timesteps.weights import loss_weights
from unequal.training.batches import Batch
from unequal.training.fixed_loss import FixedLoss, fixed_batches
from unequal.training.objectives import SingleHead

T, DRAWS = 50, 20
SCHEDULE = NoiseSchedule.linear(T)
OBJECTIVE = SingleHead("epsilon", SCHEDULE, loss_weights("min_snr", "epsilon", SCHEDULE.snr, gamma=5.0))


@pytest.fixture
def draw(prepared: PreparedData) -> Callable[..., list[Batch]]:
    def make(size: int = DRAWS, seed: int = 0) -> list[Batch]:
        return fixed_batches(tensor_of(prepared.train), T, DRAWS, size, seed, False, torch.device("cpu"))

    return make


@pytest.mark.parametrize("size", [1, 7, 20, 100])
def test_draws_may_be_cut_anywhere(size: int, draw: Callable[..., list[Batch]], tiny_net: Callable) -> None:
    net = tiny_net().eval()
    whole, cut = (FixedLoss(net, OBJECTIVE, draw(n)) for n in (DRAWS, size))
    assert len(cut.batches) == len(cut.parts()) == -(-DRAWS // size)
    torch.testing.assert_close(cut.losses(), whole.losses())
    torch.testing.assert_close(sum(part() for part in cut.parts()), whole.losses().mean())


def test_losses_are_those_of_the_objective_on_each_draw(draw: Callable[..., list[Batch]], tiny_net: Callable) -> None:
    """min(SNR, 5)/SNR · ‖ε − ε̂‖²/D, with no importance weights beside."""
    net, batch = tiny_net().eval(), draw()[0]
    schedule = NoiseSchedule.linear(T)
    expected = []
    for x0, epsilon, t in zip(batch.x0, batch.epsilon, batch.timesteps, strict=True):
        x_t = (schedule.alpha[t] * x0 + schedule.sigma[t] * epsilon).float()
        error = (net(x_t[None], t[None]).sample[0] - epsilon).square().mean()
        expected.append(error * min(schedule.snr[t], 5) / schedule.snr[t])
    torch.testing.assert_close(FixedLoss(net, OBJECTIVE, [batch]).losses(), torch.stack(expected).float())


def test_timesteps_are_spread_evenly_and_draws_follow_the_seed(draw: Callable[..., list[Batch]]) -> None:
    timesteps = draw()[0].timesteps
    assert set(np.diff(timesteps.sort().values)) <= {2, 3}
    assert torch.equal(timesteps, draw()[0].timesteps)
    assert not torch.equal(draw()[0].epsilon, draw(seed=1)[0].epsilon)


def test_curvature_does_not_depend_on_how_draws_are_cut(draw: Callable[..., list[Batch]], tiny_net: Callable) -> None:
    net = tiny_net().eval()
    parameters = list(net.parameters())
    vector = [torch.ones_like(p) for p in parameters]

    def flat(size: int) -> Tensor:
        parts = FixedLoss(net, OBJECTIVE, draw(size)).parts()
        return torch.cat([part.flatten() for part in hessian_product(parts, parameters, vector)])

    torch.testing.assert_close(flat(DRAWS), flat(6), rtol=1e-3, atol=1e-5)
