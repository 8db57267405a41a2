"""EDM2's uncertainty: what it converges to, what it does to gradients, and what takes part in it."""

from types import SimpleNamespace

import pytest
import torch
from specs import spec_of
from torch import Tensor, nn

from unequal.diffusion.predictions import NetworkFunction
from unequal.diffusion.schedule import NoiseSchedule
from unequal.settings.loss_weights import LearnedClusterUncertainty, LearnedUncertainty
from unequal.settings.recipe import Optimizer
from unequal.training.batches import Batch
from unequal.training.objectives import FEATURES, OverUncertainty, objective_for
from unequal.training.optimizer import build_optimizer, objective_group, set_schedule

SCHEDULE = NoiseSchedule.linear(50)
WEIGHT = LearnedUncertainty(kind="learned_uncertainty")


def over_uncertainty() -> OverUncertainty:
    found = objective_for(spec_of(), SCHEDULE, WEIGHT)
    assert isinstance(found, OverUncertainty)
    return found


def batch_at(timesteps: list[int], weights: list[float] | None = None) -> Batch:
    count, generator = len(timesteps), torch.Generator().manual_seed(0)
    x0, epsilon = (torch.randn(count, 1, 4, 4, generator=generator) for _ in range(2))
    return Batch(x0, epsilon, torch.tensor(timesteps), torch.tensor(weights or [1.0] * count))


def wrong_by(batch: Batch, losses: list[float]) -> NetworkFunction:
    off = torch.tensor(losses).sqrt().reshape(-1, 1, 1, 1)
    return lambda sample, timestep: SimpleNamespace(sample=batch.epsilon + off)


def test_it_begins_as_the_plain_loss() -> None:
    batch = batch_at([0, 20, 49])
    found = over_uncertainty()(wrong_by(batch, [0.5, 2.0, 0.1]), batch)
    torch.testing.assert_close(found.weighted.detach(), torch.tensor([0.5, 2.0, 0.1]))


def test_at_its_least_it_is_the_logarithm_of_the_loss() -> None:
    """u = ln(w·L), and the loss 1 + ln(w·L): of ¼, −1.3863 and −0.3863."""
    objective, batch = over_uncertainty(), batch_at([3, 20, 45])
    net = wrong_by(batch, [0.25, 0.25, 1.0])
    descent = torch.optim.LBFGS(objective.parameters(), max_iter=200, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        descent.zero_grad()
        loss = objective(net, batch).weighted.sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    descent.step(closure)
    assert objective.uncertainty.at(batch.timesteps).tolist() == pytest.approx([-1.3863, -1.3863, 0.0], abs=2e-3)
    assert objective(net, batch).weighted.tolist() == pytest.approx([-0.3863, -0.3863, 1.0], abs=2e-3)


def test_the_gradient_of_the_network_is_divided() -> None:
    objective, batch = over_uncertainty(), batch_at([3, 20])
    nn.init.normal_(objective.uncertainty.weight)
    output = (batch.epsilon + 0.3).requires_grad_()
    objective(lambda sample, timestep: SimpleNamespace(sample=output), batch).weighted.sum().backward()
    plain = 2 * 0.3 / 16
    expected = plain / objective.uncertainty.at(batch.timesteps).exp().detach()
    torch.testing.assert_close(output.grad.flatten(1).mean(1), expected)


def test_importance_weighs_the_whole_bracket() -> None:
    objective = over_uncertainty()
    nn.init.normal_(objective.uncertainty.weight)
    once, thrice = batch_at([3, 20]), batch_at([3, 20], [3.0, 3.0])
    single, triple = (objective(wrong_by(one, [0.5, 2.0]), one).weighted for one in (once, thrice))
    torch.testing.assert_close(triple, 3 * single)


def test_what_the_log_calls_loss_has_no_uncertainty_in_it() -> None:
    objective, batch = over_uncertainty(), batch_at([3, 20])
    nn.init.normal_(objective.uncertainty.weight)
    terms = objective(wrong_by(batch, [0.5, 2.0]), batch).terms
    assert terms["loss"].item() == pytest.approx(1.25)
    assert terms["uncertain"].item() != pytest.approx(1.25, rel=1e-3)


def test_its_features_have_a_length_of_one_and_are_always_the_same() -> None:
    features = over_uncertainty().uncertainty.features
    assert features.shape == (50, FEATURES)
    torch.testing.assert_close(features.norm(dim=1), torch.ones(50), rtol=0.2, atol=0)
    torch.testing.assert_close(features, over_uncertainty().uncertainty.features)


def over_clusters() -> OverUncertainty:
    weight = LearnedClusterUncertainty(kind="cluster_uncertainty", clusters=2, cluster_by="timestep")
    found = objective_for(spec_of(), SCHEDULE, weight)
    assert isinstance(found, OverUncertainty)
    return found


def test_of_clusters_it_is_half_of_losses_over_their_number_and_uncertainties() -> None:
    """Σ_k ½·(e^(−z_k)·L_k/K + z_k), of two clusters with the mean losses 1 and 3, and its gradient at 0."""
    objective, batch = over_clusters(), batch_at([3, 20, 30, 45])
    whole = objective(wrong_by(batch, [0.5, 1.5, 2.0, 4.0]), batch).weighted.mean()
    assert float(whole.detach()) == pytest.approx((1 / 2 + 3 / 2) / 2, rel=1e-5)
    whole.backward()
    (z,) = objective.parameters()
    assert z.grad is not None
    assert z.grad.tolist() == pytest.approx([(1 - 1 / 2) / 2, (1 - 3 / 2) / 2], rel=1e-5)


def test_at_its_least_clusters_uncertainty_is_the_logarithm_of_their_share() -> None:
    objective, batch = over_clusters(), batch_at([3, 45])
    with torch.no_grad():
        next(objective.parameters()).copy_(torch.tensor([0.5 / 2, 4.0 / 2]).log())
    objective(wrong_by(batch, [0.5, 4.0]), batch).weighted.mean().backward()
    (z,) = objective.parameters()
    assert z.grad is not None
    assert z.grad.tolist() == pytest.approx([0.0, 0.0], abs=1e-6)


def test_clusters_have_ants_learning_rate_and_the_noise_that_of_the_network() -> None:
    settings = Optimizer(lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1, warmup_images=0, decay="constant")
    rates = {}
    for name, objective in {"clusters": over_clusters(), "noise": over_uncertainty()}.items():
        optimizer = build_optimizer([nn.Parameter(torch.zeros(1))], settings, torch.device("cpu"))
        optimizer.add_param_group(*objective_group(objective))
        set_schedule(optimizer, settings, 0, 100)
        rates[name] = [(group["lr"], group["weight_decay"]) for group in optimizer.param_groups]
    assert rates == {"clusters": [(1e-3, 0.1), (0.025, 0.0)], "noise": [(1e-3, 0.1), (1e-3, 0.0)]}
