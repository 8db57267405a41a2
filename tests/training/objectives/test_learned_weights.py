"""Weights that are learned: losses over their running means, and over EDM2's uncertainty."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from specs import class_labels, spec_of
from torch import Tensor, nn

from unequal.diffusion.schedule import NoiseSchedule
from unequal.models.denoiser import Denoiser
from unequal.settings.loss_weights import LearnedUncertainty, RunningMean
from unequal.timesteps.partition import Partition
from unequal.training.batches import Batch
from unequal.training.objectives import (
    FEATURES,
    Objective,
    OverRunningMean,
    OverUncertainty,
    RunningMeans,
    SingleHead,
    objective_for,
)

CPU = torch.device("cpu")
SCHEDULE = NoiseSchedule.linear(50)
BINS = Partition.of_lengths([10, 40])


def over_running_mean(half_life: int = 8) -> OverRunningMean:
    return OverRunningMean(SingleHead(), BINS, half_life, CPU)


def over_uncertainty() -> OverUncertainty:
    return objective_for(spec_of(), SCHEDULE, LearnedUncertainty(kind="learned_uncertainty"))


def batch_at(timesteps: list[int], weights: list[float] | None = None) -> Batch:
    count, generator = len(timesteps), torch.Generator().manual_seed(0)
    x0, epsilon = (torch.randn(count, 1, 4, 4, generator=generator) for _ in range(2))
    return Batch(x0, epsilon, torch.tensor(timesteps), torch.tensor(weights or [1.0] * count))


def wrong_by(batch: Batch, losses: list[float]) -> Denoiser:
    off = torch.tensor(losses).sqrt().reshape(-1, 1, 1, 1)
    return Denoiser(lambda sample, timestep: batch.epsilon + off, SCHEDULE, "epsilon")


def gradient(objective: Objective, batch: Batch) -> Tensor:
    """Gradient at the output of a network that is wrong by 0.3 everywhere: without a weight 2 · 0.3/16."""
    output = (batch.epsilon + 0.3).requires_grad_()
    objective(Denoiser(lambda sample, timestep: output, SCHEDULE, "epsilon"), batch).weighted.sum().backward()
    assert output.grad is not None
    return output.grad.flatten(1).mean(1)


def step(objective: Objective, batch: Batch, losses: list[float]) -> Tensor:
    weighted = objective(wrong_by(batch, losses), batch).weighted
    objective.end_step(lambda sums: sums)
    return weighted


def test_every_timestep_comes_to_a_loss_of_one():
    objective, batch = over_running_mean(), batch_at([3, 7, 20, 45])
    first, *_, last = (step(objective, batch, [0.9, 0.9, 0.01, 0.01]) for _ in range(40))
    torch.testing.assert_close(first, torch.tensor([0.9, 0.9, 0.01, 0.01]))
    torch.testing.assert_close(last, torch.ones(4), rtol=1e-3, atol=0)


def test_a_gradient_is_divided_as_the_loss_is():
    batch, means, uncertain = batch_at([3, 20]), over_running_mean(), over_uncertainty()
    means.means.sums.copy_(torch.tensor([[2.0], [0.25]]))
    nn.init.normal_(uncertain.uncertainty.weight)
    plain, u = 2 * 0.3 / 16, uncertain.uncertainty.at(batch.timesteps).detach()
    torch.testing.assert_close(gradient(means, batch), plain / torch.tensor([2.0, 0.25]), rtol=1e-4, atol=0)
    torch.testing.assert_close(gradient(uncertain, batch), plain / u.exp())


def test_importance_weights_stay_and_count_for_no_mean():
    plain, weighted = over_running_mean(), over_running_mean()
    batch, doubled = batch_at([3, 20]), batch_at([3, 20], [2.0, 0.5])
    for _ in range(3):
        found = step(plain, batch, [0.5, 0.1]), step(weighted, doubled, [0.5, 0.1])
    torch.testing.assert_close(found[1], found[0] * torch.tensor([2.0, 0.5]))
    torch.testing.assert_close(weighted.means.sums, plain.means.sums)


@given(st.lists(st.floats(0.01, 4), min_size=1, max_size=12), st.integers(1, 50))
def test_a_mean_forgets_by_half_lives(losses, half_life):
    """One image a step: the i-th last counts 2^(−i/half-life), and an untrained loss of 1 before the first."""
    means = RunningMeans(Partition.of_lengths([50]), 1, half_life, CPU)
    for loss in losses:
        means.update(torch.ones(1, 1, dtype=torch.float64), torch.full((1, 1), loss, dtype=torch.float64))
    shares = [0.5 ** (age / half_life) for age in range(len(losses), -1, -1)]
    expected = sum(share * loss for share, loss in zip(shares, [1.0, *losses], strict=True)) / sum(shares)
    assert means.at(torch.tensor([49])).item() == pytest.approx(expected, rel=1e-5)


def test_parts_and_processes_teach_what_the_batch_does():
    whole, parted = over_running_mean(), over_running_mean()
    batch, losses = batch_at([3, 20, 44, 9]), [0.5, 0.1, 0.2, 0.3]
    step(whole, batch, losses)
    for part in (slice(0, 1), slice(1, 2)):
        one = Batch(batch.x0[part], batch.epsilon[part], batch.timesteps[part], batch.weights[part])
        parted(wrong_by(one, losses[part]), one)
    other = over_running_mean()
    rest = Batch(batch.x0[2:], batch.epsilon[2:], batch.timesteps[2:], batch.weights[2:])
    other(wrong_by(rest, losses[2:]), rest)
    parted.end_step(lambda sums: sums + other.pending)
    for name, value in whole.state_dict().items():
        torch.testing.assert_close(parted.state_dict()[name], value)


def test_the_settings_make_it_of_any_single_head():
    weight = RunningMean(kind="running_mean", half_life_images=9, bins=5)
    for spec in (spec_of(), spec_of(variance="learned"), spec_of(condition=class_labels(3))):
        found = objective_for(spec, SCHEDULE, weight)
        assert isinstance(found, OverRunningMean)
        assert type(found.objective) is type(objective_for(spec, SCHEDULE))
        assert len(found.means.counts) == 5
    by_default = RunningMean(kind="running_mean", half_life_images=9)
    assert 30 < len(objective_for(spec_of(), NoiseSchedule.linear(1000), by_default).means.counts) <= 40


def test_uncertainty_begins_as_the_plain_loss():
    batch = batch_at([0, 20, 49])
    found = over_uncertainty()(wrong_by(batch, [0.5, 2.0, 0.1]), batch)
    torch.testing.assert_close(found.weighted.detach(), torch.tensor([0.5, 2.0, 0.1]))


def test_at_its_least_it_is_the_logarithm_of_the_loss():
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


def test_importance_weighs_the_whole_bracket_and_the_log_has_the_loss_without_uncertainty():
    objective = over_uncertainty()
    nn.init.normal_(objective.uncertainty.weight)
    once, thrice = (objective(wrong_by(one, [0.5, 2.0]), one) for one in (batch_at([3, 20]), batch_at([3, 20], [3, 3])))
    torch.testing.assert_close(thrice.weighted, 3 * once.weighted)
    assert once.terms["loss"].item() == pytest.approx(1.25)
    assert once.terms["uncertain"].item() != pytest.approx(1.25, rel=1e-3)


def test_its_features_have_a_length_of_one_and_are_always_the_same():
    features = over_uncertainty().uncertainty.features
    assert features.shape == (50, FEATURES)
    torch.testing.assert_close(features.norm(dim=1), torch.ones(50), rtol=0.2, atol=0)
    torch.testing.assert_close(features, over_uncertainty().uncertainty.features)
