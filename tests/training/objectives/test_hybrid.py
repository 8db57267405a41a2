"""The hybrid objective: what each half of the channels learns from, and how much the bound counts."""

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from unequal.diffusion.posterior import VariationalBound
from unequal.diffusion.predictions import PREDICTIONS
from unequal.diffusion.schedule import NoiseSchedule
from unequal.timesteps.weights import loss_weights
from unequal.training.batches import Batch
from unequal.training.objectives import Hybrid, SingleHead

T = 50
SCHEDULE = NoiseSchedule.linear(T)


class TwoHalves(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.output = nn.Parameter(torch.randn(5, 1, 4, 4, generator=generator))
        self.variance = nn.Parameter(torch.randn(5, 1, 4, 4, generator=generator))

    def forward(self, sample: Tensor, timestep: Tensor) -> SimpleNamespace:
        return SimpleNamespace(sample=torch.cat([self.output, self.variance], dim=1))


def x0_of(given: Batch, prediction: str, output: Tensor) -> tuple[Tensor, Tensor]:
    ratio = SCHEDULE.alphas_cumprod[given.timesteps].float().reshape(-1, 1, 1, 1)
    alpha, sigma = ratio.sqrt(), (1 - ratio).sqrt()
    x_t = alpha * given.x0 + sigma * given.epsilon
    known = {
        "sample": output,
        "epsilon": (x_t - sigma * output) / alpha,
        "v_prediction": alpha * x_t - sigma * output,
        "velocity": (x_t - sigma * output) / (alpha + sigma),
    }
    return x_t, known[prediction]


@pytest.mark.parametrize("prediction", PREDICTIONS)
@pytest.mark.parametrize(("weight", "keywords"), [("none", {}), ("min_snr", {"gamma": 5.0})])
def test_the_bound_comes_on_top_of_the_error(prediction: str, weight: str, keywords: dict[str, float], batch: Batch):
    net, given = TwoHalves(), batch
    table = loss_weights(weight, prediction, SCHEDULE.snr, **keywords)
    losses = Hybrid(prediction, SCHEDULE, table)(net, given)
    alone = SingleHead(prediction, SCHEDULE, table)(lambda x, t: SimpleNamespace(sample=net.output), given)
    x_t, predicted = x0_of(batch, prediction, net.output)
    bits = VariationalBound(SCHEDULE).term(given.x0, x_t, predicted, net.variance, given.timesteps)
    torch.testing.assert_close(losses.weighted, alone.weighted + 0.001 * T * bits * given.weights)
    torch.testing.assert_close(losses.terms["mse"], alone.terms["mse"])
    torch.testing.assert_close(losses.terms["bound"], bits.mean().detach())


@pytest.mark.parametrize("prediction", PREDICTIONS)
def test_the_prediction_learns_from_its_error_alone(prediction: str, batch: Batch) -> None:
    hybrid, alone, given = TwoHalves(), TwoHalves(), batch
    Hybrid(prediction, SCHEDULE)(hybrid, given).weighted.sum().backward()
    plain = SingleHead(prediction, SCHEDULE)
    plain(lambda x, t: SimpleNamespace(sample=alone.output), given).weighted.sum().backward()
    torch.testing.assert_close(hybrid.output.grad, alone.output.grad)
    assert hybrid.variance.grad is not None
    assert bool((hybrid.variance.grad.flatten(1).norm(dim=1) > 0).all())


def test_variance_is_learned_to_be_as_wide_as_the_error(batch: Batch) -> None:
    """Where the mean is wrong, the best variance is the true one plus the mean's squared error."""
    t, net = 30, TwoHalves()
    given = Batch(batch.x0, batch.epsilon, torch.full((5,), t), torch.ones(5))
    optimizer = torch.optim.Adam([net.variance], lr=0.05)
    objective = Hybrid("sample", SCHEDULE)
    with torch.no_grad():
        net.output.copy_(given.x0 + 0.1)
    for _ in range(200):
        optimizer.zero_grad()
        objective(net, given).weighted.sum().backward()
        optimizer.step()
    found = objective.bound.log_variance(net.variance.detach(), given.timesteps).exp()
    before, now = SCHEDULE.alphas_cumprod[t - 1], SCHEDULE.alphas_cumprod[t]
    true = (1 - before) / (1 - now) * SCHEDULE.betas[t]
    error = (before.sqrt() * SCHEDULE.betas[t] / (1 - now) * 0.1) ** 2
    torch.testing.assert_close(found, torch.full_like(found, float(true + error)), rtol=1e-3, atol=0)
