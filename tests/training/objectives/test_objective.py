"""Losses against the same written by hand."""

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from unequal.diffusion.predictions import PREDICTIONS
from unequal.diffusion.schedule import NoiseSchedule
from unequal.timesteps.weights import loss_weights
from unequal.training.batches import Batch
from unequal.training.objectives import SingleHead

SCHEDULE = NoiseSchedule.linear(50)
RATIO = torch.cumprod(1 - torch.linspace(2e-3, 0.4, 50, dtype=torch.float64), 0)
T = torch.tensor([0, 7, 20, 35, 49])


def coefficients() -> tuple[Tensor, Tensor]:
    ratio = RATIO[T].float().reshape(-1, 1, 1, 1)
    return ratio.sqrt(), (1 - ratio).sqrt()


def targets(batch: Batch) -> dict[str, Tensor]:
    alpha, sigma = coefficients()
    return {
        "sample": batch.x0,
        "epsilon": batch.epsilon,
        "v_prediction": alpha * batch.epsilon - sigma * batch.x0,
        "velocity": batch.epsilon - batch.x0,
    }


@pytest.mark.parametrize("prediction", PREDICTIONS)
def test_single_head_is_the_mean_squared_error(prediction: str, batch: Batch) -> None:
    alpha, sigma = coefficients()
    x_t = alpha * batch.x0 + sigma * batch.epsilon
    seen = []

    def net(sample: Tensor, timestep: Tensor) -> SimpleNamespace:
        seen.append((sample, timestep))
        return SimpleNamespace(sample=0.3 * sample)

    losses = SingleHead(prediction, SCHEDULE)(net, batch)
    expected = ((0.3 * x_t - targets(batch)[prediction]) ** 2).mean((1, 2, 3))
    torch.testing.assert_close(losses.weighted, expected * batch.weights)
    torch.testing.assert_close(losses.terms["mse"], expected.mean())
    torch.testing.assert_close(seen[0][0], x_t)
    assert torch.equal(seen[0][1], T)


@pytest.mark.parametrize("prediction", PREDICTIONS)
@pytest.mark.parametrize("kind", ["min_snr", "p2"])
def test_single_head_weighs_by_the_snr(prediction: str, kind: str, batch: Batch) -> None:
    snr = (RATIO / (1 - RATIO))[T].float()
    gamma = 5.0 if kind == "min_snr" else 1.0
    least = snr.clamp(max=gamma)
    of_velocity = (1 + snr.sqrt()) ** 2
    by_hand = {
        "min_snr": {
            "epsilon": least / snr,
            "v_prediction": least / (snr + 1),
            "sample": least,
            "velocity": least / of_velocity,
        },
        "p2": {
            "epsilon": 1 / (1 + snr),
            "v_prediction": snr / (1 + snr) ** 2,
            "sample": snr / (1 + snr),
            "velocity": snr / (1 + snr) / of_velocity,
        },
    }[kind][prediction]

    def net(sample: Tensor, timestep: Tensor) -> SimpleNamespace:
        return SimpleNamespace(sample=torch.zeros_like(sample))

    plain = SingleHead(prediction, SCHEDULE)(net, batch)
    weighted = SingleHead(prediction, SCHEDULE, loss_weights(kind, prediction, SCHEDULE.snr, gamma=gamma))(net, batch)
    torch.testing.assert_close(weighted.weighted, plain.weighted * by_hand, rtol=1e-4, atol=0)
    torch.testing.assert_close(weighted.terms["mse"], plain.terms["mse"])


def test_most_objectives_remember_nothing() -> None:
    objective = SingleHead("epsilon", SCHEDULE)
    assert objective.state_dict() == {}
    assert objective.statistics() == {}
