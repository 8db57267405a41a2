"""Losses of one head against the same written by hand, and what the bound of a learned variance adds."""

from types import SimpleNamespace

import pytest
import torch
from pydantic import TypeAdapter
from torch import Tensor, nn

from unequal.diffusion.posterior import VariationalBound
from unequal.diffusion.predictions import PREDICTIONS, add_noise, to_x0
from unequal.diffusion.schedule import NoiseSchedule
from unequal.models.denoiser import Denoiser
from unequal.settings.loss_weights import AnyLossWeight
from unequal.training.objectives import Hybrid, SingleHead, objective_for

SCHEDULE = NoiseSchedule.linear(50)
RATIO = torch.cumprod(1 - torch.linspace(2e-3, 0.4, 50, dtype=torch.float64), 0)
T = torch.tensor([0, 7, 20, 35, 49])


@pytest.mark.parametrize("prediction", PREDICTIONS)
def test_single_head_is_the_mean_squared_error(prediction, batch):
    ratio, seen = RATIO[T].float().reshape(-1, 1, 1, 1), []
    alpha, sigma = ratio.sqrt(), (1 - ratio).sqrt()
    x_t = alpha * batch.x0 + sigma * batch.epsilon
    v, velocity = alpha * batch.epsilon - sigma * batch.x0, batch.epsilon - batch.x0
    targets = {"sample": batch.x0, "epsilon": batch.epsilon, "v_prediction": v, "velocity": velocity}

    def net(sample: Tensor, timestep: Tensor) -> SimpleNamespace:
        seen.append((sample, timestep))
        return SimpleNamespace(sample=0.3 * sample)

    losses = SingleHead()(Denoiser(net, SCHEDULE, prediction), batch)
    expected = ((0.3 * x_t - targets[prediction]) ** 2).mean((1, 2, 3))
    torch.testing.assert_close(losses.weighted, expected * batch.weights)
    torch.testing.assert_close(losses.terms["mse"], expected.mean())
    torch.testing.assert_close(seen[0][0], x_t)
    assert torch.equal(seen[0][1], T)


@pytest.mark.parametrize("prediction", PREDICTIONS)
def test_a_weight_multiplies_the_error_of_its_timestep(prediction, batch):
    table = torch.linspace(0.1, 7, 50)

    def net(sample: Tensor, timestep: Tensor) -> SimpleNamespace:
        return SimpleNamespace(sample=torch.zeros_like(sample))

    plain, weighted = (SingleHead(one)(Denoiser(net, SCHEDULE, prediction), batch) for one in (None, table))
    torch.testing.assert_close(weighted.weighted, plain.weighted * table[T])
    torch.testing.assert_close(weighted.terms["mse"], plain.terms["mse"])


@pytest.mark.parametrize(("learned", "kind"), [(False, SingleHead), (True, Hybrid)])
def test_objective_of_a_record(learned, kind, tiny_net, make_record):
    record = make_record(tiny_net(), prediction="v_prediction", variance="learned" if learned else "fixed")
    plain = objective_for(record.spec, SCHEDULE)
    assert type(plain) is kind
    assert plain.weights is None
    snr = SCHEDULE.snr.float()
    weight = TypeAdapter(AnyLossWeight).validate_python({"kind": "min_snr", "gamma": 5.0})
    found = objective_for(record.spec, SCHEDULE, weight)
    torch.testing.assert_close(found.weights, snr.clamp(max=5) / (snr + 1), rtol=1e-5, atol=0)


class TwoHalves(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.output = nn.Parameter(torch.randn(5, 1, 4, 4, generator=generator))
        self.variance = nn.Parameter(torch.randn(5, 1, 4, 4, generator=generator))

    def forward(self, sample: Tensor, timestep: Tensor) -> SimpleNamespace:
        return SimpleNamespace(sample=torch.cat([self.output, self.variance], dim=1))


@pytest.mark.parametrize("prediction", PREDICTIONS)
def test_the_bound_comes_on_top_of_the_error(prediction, batch):
    net, table = TwoHalves(), torch.linspace(0.1, 7, 50)
    losses = Hybrid(SCHEDULE, table)(Denoiser(net, SCHEDULE, prediction, learned_variance=True), batch)
    alone = SingleHead(table)(Denoiser(lambda x, t: net.output, SCHEDULE, prediction), batch)
    levels = SCHEDULE.at(T, batch.x0)
    x_t = add_noise(batch.x0, batch.epsilon, *levels)
    predicted = to_x0(prediction, net.output, x_t, *levels)
    bits = VariationalBound(SCHEDULE).term(batch.x0, x_t, predicted, net.variance, T)
    torch.testing.assert_close(losses.weighted, alone.weighted + 0.001 * 50 * bits * batch.weights)
    torch.testing.assert_close(losses.terms["mse"], alone.terms["mse"])
    torch.testing.assert_close(losses.terms["bound"], bits.mean().detach())


@pytest.mark.parametrize("prediction", PREDICTIONS)
def test_the_prediction_learns_from_its_error_alone(prediction, batch):
    hybrid, alone = TwoHalves(), TwoHalves()
    both = Denoiser(hybrid, SCHEDULE, prediction, learned_variance=True)
    Hybrid(SCHEDULE)(both, batch).weighted.sum().backward()
    SingleHead()(Denoiser(lambda x, t: alone.output, SCHEDULE, prediction), batch).weighted.sum().backward()
    torch.testing.assert_close(hybrid.output.grad, alone.output.grad)
    assert hybrid.variance.grad is not None
    assert bool((hybrid.variance.grad.flatten(1).norm(dim=1) > 0).all())
