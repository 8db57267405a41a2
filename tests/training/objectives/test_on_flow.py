"""Three heads on a flow: errors of x0, of the velocity and of ε, as they are."""

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from unequal.diffusion.predictions import HEADS_OF_FLOW, target, x0_error_factor
from unequal.diffusion.schedule import Flow
from unequal.timesteps.partition import Partition
from unequal.training.batches import Batch
from unequal.training.three_heads import BalancedHeads, BestHead, OnFlow

FLOW = Flow(50, 3.0)
BINS = Partition.of_lengths([10] * 5)
TIMES = torch.tensor([0, 7, 20, 35, 49])


@pytest.fixture
def batch() -> Batch:
    x0, epsilon = torch.randn(2, 5, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    return Batch(x0, epsilon, TIMES, torch.ones(5))


def answers(batch: Batch, errors: list[float]) -> Tensor:
    levels = FLOW.at(batch.timesteps, batch.x0)
    right = [target(head, batch.x0, batch.epsilon, *levels) for head in HEADS_OF_FLOW]
    return torch.cat([one + off for one, off in zip(right, errors, strict=True)], dim=1)


def test_each_heads_loss_is_the_error_of_what_it_predicts(batch: Batch) -> None:
    objective = OnFlow(BalancedHeads(FLOW, BINS, 100, 8), FLOW)
    output = answers(batch, [0.1, 0.2, 0.3])
    found = objective(lambda sample, timestep: SimpleNamespace(sample=output), batch)
    torch.testing.assert_close(found.weighted, torch.full((5,), (0.01 + 0.04 + 0.09) / 3), rtol=1e-4, atol=0)


def test_the_best_head_is_that_with_the_least_error_of_x0(batch: Batch) -> None:
    errors = [0.2, 0.3, 0.05]
    objective = OnFlow(BestHead(FLOW, BINS, 100, "common"), FLOW)
    objective(lambda sample, timestep: SimpleNamespace(sample=answers(batch, errors)), batch)
    objective.end_step(lambda sums: sums)
    factors = torch.stack([x0_error_factor(head, FLOW.alpha, FLOW.sigma)[TIMES] for head in HEADS_OF_FLOW])
    wins = torch.nn.functional.one_hot((factors * torch.tensor(errors)[:, None] ** 2).argmin(0), 3).sum(0)
    assert objective.statistics()["wins"].sum((0, 1)).tolist() == wins.tolist()
    assert (wins > 0).sum() > 1


def test_the_network_gets_the_times_of_the_flow(batch: Batch) -> None:
    seen: list[Tensor] = []

    def net(sample: Tensor, timestep: Tensor) -> SimpleNamespace:
        seen.append(timestep)
        return SimpleNamespace(sample=answers(batch, [0.1, 0.2, 0.3]))

    OnFlow(BestHead(FLOW, BINS, 100, "native"), FLOW)(net, batch)
    torch.testing.assert_close(seen[0], (1000 * FLOW.sigma)[TIMES].float())
