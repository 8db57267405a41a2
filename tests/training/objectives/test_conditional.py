"""Any objective trains a network that sees the image at low resolution as well, or by its label."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from specs import class_labels, low_resolution
from torch import Tensor

from unequal.diffusion.schedule import NoiseSchedule
from unequal.models.conditions import Unconditional, condition_of
from unequal.timesteps.partition import Partition
from unequal.training.objectives import Objective, SingleHead, conditioned
from unequal.training.three_heads import BalancedHeads, BestHead

SCHEDULE = NoiseSchedule.linear(50)
T = torch.tensor([0, 7, 20, 35, 49])


def at_low_resolution(x0: Tensor) -> Tensor:
    small = x0.reshape(5, 1, 2, 2, 2, 2).mean((3, 5))
    return torch.nn.functional.interpolate(small, size=4, mode="bilinear")


BINS = Partition.of_lengths([10] * 5)
OBJECTIVES: list[tuple[Callable[[], Objective], int]] = [
    (lambda: SingleHead("epsilon", SCHEDULE), 1),
    (lambda: BestHead(SCHEDULE, BINS, 100, "common"), 3),
    (lambda: BalancedHeads(SCHEDULE, BINS, 100, half_life=10), 3),
]


@pytest.mark.parametrize(("make", "heads"), OBJECTIVES)
def test_all_is_as_with_a_network_that_knows_the_condition(make, heads, batch):
    condition, seen = at_low_resolution(batch.x0), []

    def net(sample: Tensor, timestep: Tensor) -> SimpleNamespace:
        assert torch.equal(timestep, T)
        seen.append(sample)
        return SimpleNamespace(sample=0.3 * sample[:, -1:].expand(-1, heads, -1, -1))

    def knowing(sample: Tensor, timestep: Tensor) -> SimpleNamespace:
        return net(torch.cat([sample, condition], dim=1), timestep)

    bare = make()
    wrapped = conditioned(make(), condition_of(low_resolution(2)))
    for _ in range(2):  # the second step is shaped by what an objective has learned from the first
        found, expected = wrapped(net, batch), bare(knowing, batch)
        torch.testing.assert_close(found.weighted, expected.weighted)
        torch.testing.assert_close(found.terms, expected.terms)
        torch.testing.assert_close(seen[-1], seen[-2])
        wrapped.end_step(lambda sums: sums)
        bare.end_step(lambda sums: sums)
    assert seen[0].shape == (5, 2, 4, 4)
    assert wrapped.statistics().keys() == bare.statistics().keys()
    for name, table in bare.statistics().items():
        np.testing.assert_allclose(wrapped.statistics()[name], table, rtol=1e-6)
    assert len(wrapped.state_dict()) == len(bare.state_dict())


@pytest.mark.parametrize(("make", "heads"), OBJECTIVES)
def test_a_residual_is_trained_as_an_image_of_its_own(make, heads, batch):
    enlarged = at_low_resolution(batch.x0)

    def net(sample: Tensor, timestep: Tensor) -> SimpleNamespace:
        assert torch.equal(sample[:, 1:], enlarged)  # the network sees the enlarged image itself
        return SimpleNamespace(sample=0.3 * sample[:, :1].repeat(1, heads, 1, 1))

    def knowing(sample: Tensor, timestep: Tensor) -> SimpleNamespace:
        return net(torch.cat([sample, enlarged], dim=1), timestep)

    found = conditioned(make(), condition_of(low_resolution(2, residual=True)))(net, batch)
    expected = make()(knowing, replace(batch, x0=batch.x0 - enlarged))
    torch.testing.assert_close(found.weighted, expected.weighted)
    torch.testing.assert_close(found.terms, expected.terms)


@pytest.mark.parametrize(("make", "heads"), OBJECTIVES)
def test_all_is_as_with_a_network_that_knows_the_labels(make, heads, batch):
    def net(sample: Tensor, timestep: Tensor, class_labels: Tensor) -> SimpleNamespace:
        return SimpleNamespace(sample=(sample * class_labels[:, None, None, None]).repeat(1, heads, 1, 1))

    def knowing(sample: Tensor, timestep: Tensor) -> SimpleNamespace:
        return net(sample, timestep, torch.tensor([0, 2, 1, 0, 2]))

    found, expected = conditioned(make(), condition_of(class_labels(3)))(net, batch), make()(knowing, batch)
    torch.testing.assert_close(found.weighted, expected.weighted)
    # Each image has its own label when it is measured alone.
    alone = [conditioned(make(), condition_of(class_labels(3)))(net, one).weighted for one in batch.singles()]
    torch.testing.assert_close(torch.cat(alone), expected.weighted)


def test_generation_leaves_an_objective_as_it_is():
    objective = SingleHead("epsilon", SCHEDULE)
    assert conditioned(objective, Unconditional()) is objective
