"""Any objective trains a network that sees the image at low resolution as well, or by its label."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from specs import class_labels, low_resolution
from torch import Tensor

from unequal.diffusion.schedule import NoiseSchedule
from unequal.models.conditions import condition_of
from unequal.models.denoiser import Denoiser
from unequal.timesteps.partition import Partition
from unequal.training.objectives import Objective, SingleHead
from unequal.training.three_heads import BalancedHeads, BestHead

SCHEDULE = NoiseSchedule.linear(50)
T = torch.tensor([0, 7, 20, 35, 49])


def at_low_resolution(x0: Tensor) -> Tensor:
    small = x0.reshape(5, 1, 2, 2, 2, 2).mean((3, 5))
    return torch.nn.functional.interpolate(small, size=4, mode="bilinear")


BINS = Partition.of_lengths([10] * 5)
OBJECTIVES: list[tuple[Callable[[], Objective], int]] = [
    (SingleHead, 1),
    (lambda: BestHead(BINS, 100, "common"), 3),
    (lambda: BalancedHeads(BINS, 100, half_life=10), 3),
]


def denoiser(net: Callable[..., Any], heads: int, condition: Any = None) -> Denoiser:
    asked = None if condition is None else condition_of(condition)
    return Denoiser(net, SCHEDULE, "epsilon" if heads == 1 else "mixed", condition=asked)


@pytest.mark.parametrize(("make", "heads"), OBJECTIVES)
def test_all_is_as_with_a_network_that_knows_the_condition(make, heads, batch):
    condition, seen = at_low_resolution(batch.x0), []

    def net(sample: Tensor, timestep: Tensor) -> SimpleNamespace:
        assert torch.equal(timestep, T)
        seen.append(sample)
        return SimpleNamespace(sample=0.3 * sample[:, -1:].expand(-1, heads, -1, -1))

    def knowing(sample: Tensor, timestep: Tensor) -> SimpleNamespace:
        return net(torch.cat([sample, condition], dim=1), timestep)

    bare, wrapped = make(), make()
    seeing = denoiser(net, heads, low_resolution(2)).conditioned_on(batch.x0)
    for _ in range(2):  # the second step is shaped by what an objective has learned from the first
        found, expected = wrapped(seeing, batch), bare(denoiser(knowing, heads), batch)
        torch.testing.assert_close(found.weighted, expected.weighted)
        torch.testing.assert_close(found.terms, expected.terms)
        torch.testing.assert_close(seen[-1], seen[-2])
        wrapped.end_step(lambda sums: sums)
        bare.end_step(lambda sums: sums)
    assert seen[0].shape == (5, 2, 4, 4)
    for name, table in bare.statistics().items():
        np.testing.assert_allclose(wrapped.statistics()[name], table, rtol=1e-6)


@pytest.mark.parametrize(("make", "heads"), OBJECTIVES)
def test_a_residual_is_trained_as_an_image_of_its_own(make, heads, batch):
    enlarged = at_low_resolution(batch.x0)

    def net(sample: Tensor, timestep: Tensor) -> SimpleNamespace:
        assert torch.equal(sample[:, 1:], enlarged)  # the network sees the enlarged image itself
        return SimpleNamespace(sample=0.3 * sample[:, :1].repeat(1, heads, 1, 1))

    def knowing(sample: Tensor, timestep: Tensor) -> SimpleNamespace:
        return net(torch.cat([sample, enlarged], dim=1), timestep)

    found = make()(denoiser(net, heads, low_resolution(2, residual=True)).conditioned_on(batch.x0), batch)
    expected = make()(denoiser(knowing, heads), replace(batch, x0=batch.x0 - enlarged))
    torch.testing.assert_close(found.weighted, expected.weighted)
    torch.testing.assert_close(found.terms, expected.terms)


@pytest.mark.parametrize(("make", "heads"), OBJECTIVES)
def test_all_is_as_with_a_network_that_knows_the_labels(make, heads, batch):
    def net(sample: Tensor, timestep: Tensor, class_labels: Tensor) -> SimpleNamespace:
        return SimpleNamespace(sample=(sample * class_labels[:, None, None, None]).repeat(1, heads, 1, 1))

    def knowing(sample: Tensor, timestep: Tensor) -> SimpleNamespace:
        return net(sample, timestep, torch.tensor([0, 2, 1, 0, 2]))

    labelled, expected = denoiser(net, heads, class_labels(3)), make()(denoiser(knowing, heads), batch)
    found = make()(labelled.conditioned_on(batch.x0, batch.labels), batch)
    torch.testing.assert_close(found.weighted, expected.weighted)
    # Each image has its own label when it is measured alone.
    alone = [make()(labelled.conditioned_on(one.x0, one.labels), one).weighted for one in batch.singles()]
    torch.testing.assert_close(torch.cat(alone), expected.weighted)
