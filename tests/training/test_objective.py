"""Losses against the same written by hand, and where the gradient of the mixed prediction goes."""

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from unequal.predictions import HEADS, PREDICTIONS
from unequal.schedule import NoiseSchedule
from unequal.training.batches import Batch
from unequal.training.objective import BestHead, SingleHead

SCHEDULE = NoiseSchedule.linear(50)
RATIO = torch.cumprod(1 - torch.linspace(2e-3, 0.4, 50, dtype=torch.float64), 0)
T = torch.tensor([0, 7, 20, 35, 49])


@pytest.fixture
def batch() -> Batch:
    generator = torch.Generator().manual_seed(0)
    return Batch(
        torch.rand(5, 1, 4, 4, generator=generator) * 2 - 1,
        torch.randn(5, 1, 4, 4, generator=generator),
        T,
        torch.tensor([1.0, 2.0, 0.5, 1.0, 3.0]),
    )


def coefficients() -> tuple[Tensor, Tensor]:
    ratio = RATIO[T].float().reshape(-1, 1, 1, 1)
    return ratio.sqrt(), (1 - ratio).sqrt()


def targets(batch: Batch) -> dict[str, Tensor]:
    alpha, sigma = coefficients()
    return {"sample": batch.x0, "epsilon": batch.epsilon, "v_prediction": alpha * batch.epsilon - sigma * batch.x0}


@pytest.mark.parametrize("prediction", PREDICTIONS)
def test_single_head_is_the_mean_squared_error(prediction: str, batch: Batch) -> None:
    alpha, sigma = coefficients()
    x_t = alpha * batch.x0 + sigma * batch.epsilon
    seen = []

    def net(sample: Tensor, timestep: Tensor) -> SimpleNamespace:
        seen.append((sample, timestep))
        return SimpleNamespace(sample=0.3 * sample)

    losses = SingleHead(prediction, SCHEDULE, "none", None)(net, batch)
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
    by_hand = {
        "min_snr": {"epsilon": least / snr, "v_prediction": least / (snr + 1), "sample": least},
        "p2": {"epsilon": 1 / (1 + snr), "v_prediction": snr / (1 + snr) ** 2, "sample": snr / (1 + snr)},
    }[kind][prediction]

    def net(sample: Tensor, timestep: Tensor) -> SimpleNamespace:
        return SimpleNamespace(sample=torch.zeros_like(sample))

    plain = SingleHead(prediction, SCHEDULE, "none", None)(net, batch)
    weighted = SingleHead(prediction, SCHEDULE, kind, gamma)(net, batch)
    torch.testing.assert_close(weighted.weighted, plain.weighted * by_hand, rtol=1e-4, atol=0)
    torch.testing.assert_close(weighted.terms["mse"], plain.terms["mse"])


def wrong_by(batch: Batch, errors: Tensor) -> Tensor:
    """An output of three heads whose errors have the root mean squares [3, B]."""
    truth = targets(batch)
    return torch.cat([truth[head] + errors[i].reshape(-1, 1, 1, 1) for i, head in enumerate(HEADS)], dim=1)


def answered(objective: BestHead, batch: Batch, output: Tensor) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """(weighted loss [B], gradient of its sum at the output, terms)."""
    leaf = output.clone().requires_grad_(True)
    losses = objective(lambda sample, timestep: SimpleNamespace(sample=leaf), batch)
    losses.weighted.sum().backward()
    assert leaf.grad is not None
    return losses.weighted.detach(), leaf.grad, losses.terms


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("compare", ["common", "native"])
def test_only_the_best_head_learns(head: str, compare: str, batch: Batch) -> None:
    chosen = HEADS.index(head)
    errors = torch.full((3, 5), 1000.0)
    errors[chosen] = 0.1
    weighted, gradient, terms = answered(BestHead(SCHEDULE, "none", None, compare), batch, wrong_by(batch, errors))
    torch.testing.assert_close(weighted, 0.01 * batch.weights, rtol=1e-3, atol=0)
    for i in range(3):
        assert bool((gradient[:, i] != 0).all()) == (i == chosen)
        assert bool((gradient[:, i] == 0).all()) == (i != chosen)
    # d/do of the mean over 16 pixels of (o − truth)².
    by_hand = 2 * 0.1 / 16 * batch.weights.reshape(-1, 1, 1).expand(5, 4, 4)
    torch.testing.assert_close(gradient[:, chosen], by_hand, rtol=1e-3, atol=1e-6)
    assert {name: float(value) for name, value in terms.items() if name != "mse"} == {
        f"wins_{one}": float(one == head) for one in HEADS
    }


def test_heads_are_compared_in_the_space_of_x0(batch: Batch) -> None:
    alpha, sigma = (table.flatten() for table in coefficients())
    errors = torch.stack([torch.full((5,), 0.5), 0.45 / sigma, 0.4 * alpha / sigma])
    _, gradient, terms = answered(BestHead(SCHEDULE, "none", None, "common"), batch, wrong_by(batch, errors))
    # In x0-space these errors are 0.5, 0.45 and 0.4 at every timestep: ε is best throughout.
    assert float(terms["wins_epsilon"]) == 1
    assert bool((gradient[:, :2] == 0).all())


def test_native_comparison_takes_the_losses_as_they_are(batch: Batch) -> None:
    alpha, sigma = (table.flatten() for table in coefficients())
    errors = torch.stack([torch.full((5,), 0.5), 0.45 / sigma, 0.4 * alpha / sigma])
    _, gradient, terms = answered(BestHead(SCHEDULE, "none", None, "native"), batch, wrong_by(batch, errors))
    best = errors.argmin(0)
    assert len(set(best.tolist())) == 2, "the case tells nothing if one head is best throughout"
    for i, head in enumerate(HEADS):
        assert float(terms[f"wins_{head}"]) == pytest.approx(float((best == i).float().mean()))
        assert torch.equal((gradient[:, i] != 0).flatten(1).all(1), best == i)


def test_the_loss_of_the_best_head_has_that_heads_weight(batch: Batch) -> None:
    snr = (RATIO / (1 - RATIO))[T].float()
    errors = torch.full((3, 5), 1000.0)
    best = torch.tensor([0, 1, 2, 0, 1])
    errors[best, torch.arange(5)] = 0.1
    least = snr.clamp(max=5)
    weights = torch.stack([least, least / (snr + 1), least / snr])[best, torch.arange(5)]
    weighted, _, _ = answered(BestHead(SCHEDULE, "min_snr", 5.0, "common"), batch, wrong_by(batch, errors))
    torch.testing.assert_close(weighted, 0.01 * weights * batch.weights, rtol=1e-3, atol=0)
