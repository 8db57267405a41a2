"""Losses against the same written by hand."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from pydantic import TypeAdapter
from specs import low_resolution, spec_of
from torch import Tensor

from unequal.diffusion.predictions import PREDICTIONS
from unequal.diffusion.schedule import NoiseSchedule
from unequal.settings.loss_weights import AnyLossWeight
from unequal.timesteps.weights import loss_weights
from unequal.training.batches import Batch
from unequal.training.objectives import Conditioned, Hybrid, SingleHead, objective_for

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


@pytest.mark.parametrize(("learned", "kind"), [(False, SingleHead), (True, Hybrid)])
def test_objective_of_a_record(learned: bool, kind: type, tiny_net: Callable, make_record: Callable) -> None:
    record = make_record(tiny_net(), prediction="v_prediction", variance="learned" if learned else "fixed")
    plain = objective_for(record.spec, SCHEDULE)
    assert type(plain) is kind
    assert plain.prediction == "v_prediction"
    assert plain.weights.tolist() == [1.0] * 50
    snr = SCHEDULE.snr.float()
    weight = TypeAdapter(AnyLossWeight).validate_python({"kind": "min_snr", "gamma": 5.0})
    torch.testing.assert_close(
        objective_for(record.spec, SCHEDULE, weight).weights, snr.clamp(max=5) / (snr + 1), rtol=1e-5, atol=0
    )


def test_objective_of_a_model_of_super_resolution(tiny_net: Callable, make_record: Callable) -> None:
    found = objective_for(spec_of(condition=low_resolution(4), variance="learned"), SCHEDULE)
    assert isinstance(found, Conditioned)
    assert found.condition == low_resolution(4)
    assert isinstance(found.objective, Hybrid)
