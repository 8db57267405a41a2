"""Losses over their running means: one at every timestep, whatever a timestep loses."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from specs import class_labels, spec_of
from torch import Tensor

from unequal.diffusion.schedule import NoiseSchedule
from unequal.settings.loss_weights import RunningMean
from unequal.timesteps.partition import Partition
from unequal.training.batches import Batch
from unequal.training.objectives import Objective, OverRunningMean, RunningMeans, SingleHead, objective_for

CPU = torch.device("cpu")
SCHEDULE = NoiseSchedule.linear(50)
BINS = Partition.of_lengths([10, 40])


def over_running_mean(half_life: int = 8) -> OverRunningMean:
    return OverRunningMean(SingleHead("epsilon", SCHEDULE), BINS, half_life, CPU)


def batch_at(timesteps: list[int], weights: list[float] | None = None) -> Batch:
    count, generator = len(timesteps), torch.Generator().manual_seed(0)
    x0, epsilon = (torch.randn(count, 1, 4, 4, generator=generator) for _ in range(2))
    return Batch(x0, epsilon, torch.tensor(timesteps), torch.tensor(weights or [1.0] * count))


def answers(batch: Batch, losses: list[float]) -> Any:
    wrong = torch.tensor(losses).sqrt().reshape(-1, 1, 1, 1)
    return lambda sample, timestep, **conditions: SimpleNamespace(sample=batch.epsilon + wrong)


def step(objective: Objective, batch: Batch, losses: list[float]) -> Tensor:
    weighted = objective(answers(batch, losses), batch).weighted
    objective.end_step(lambda sums: sums)
    return weighted


def test_every_timestep_comes_to_a_loss_of_one():
    objective, batch = over_running_mean(), batch_at([3, 7, 20, 45])
    first, *_, last = (step(objective, batch, [0.9, 0.9, 0.01, 0.01]) for _ in range(40))
    torch.testing.assert_close(first, torch.tensor([0.9, 0.9, 0.01, 0.01]))
    torch.testing.assert_close(last, torch.ones(4), rtol=1e-3, atol=0)


def test_a_gradient_is_divided_as_the_loss_is():
    objective, batch = over_running_mean(), batch_at([3, 20])
    objective.means.sums.copy_(torch.tensor([[2.0], [0.25]]))
    output = (batch.epsilon + 0.3).requires_grad_()
    objective(lambda sample, timestep: SimpleNamespace(sample=output), batch).weighted.sum().backward()
    by_hand = 2 * 0.3 / 16 / torch.tensor([2.0, 0.25]).reshape(2, 1, 1, 1).expand(2, 1, 4, 4)
    torch.testing.assert_close(output.grad, by_hand, rtol=1e-4, atol=0)


def test_importance_weights_stay_and_count_for_no_mean():
    plain, weighted = over_running_mean(), over_running_mean()
    batch, doubled = batch_at([3, 20]), batch_at([3, 20], [2.0, 0.5])
    for _ in range(3):
        found = step(plain, batch, [0.5, 0.1]), step(weighted, doubled, [0.5, 0.1])
    torch.testing.assert_close(found[1], found[0] * torch.tensor([2.0, 0.5]))
    torch.testing.assert_close(weighted.means.sums, plain.means.sums)


@given(st.lists(st.floats(0.01, 4), min_size=1, max_size=12), st.integers(1, 50))
def test_a_mean_forgets_by_half_lives(losses: list[float], half_life: int):
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
        parted(answers(one, losses[part]), one)
    other = over_running_mean()
    rest = Batch(batch.x0[2:], batch.epsilon[2:], batch.timesteps[2:], batch.weights[2:])
    other(answers(rest, losses[2:]), rest)
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
    by_default = objective_for(
        spec_of(), NoiseSchedule.linear(1000), RunningMean(kind="running_mean", half_life_images=9)
    )
    assert isinstance(by_default, OverRunningMean)
    assert 30 < len(by_default.means.counts) <= 40
