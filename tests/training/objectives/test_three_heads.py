"""Where the gradient of three heads goes, and what is kept of their losses."""

from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor

from unequal.diffusion.predictions import HEADS, HEADS_OF_FLOW, target, x0_error_factor
from unequal.diffusion.schedule import Flow, NoiseSchedule
from unequal.models.denoiser import Denoiser
from unequal.timesteps.partition import Partition
from unequal.training.batches import Batch
from unequal.training.objectives import Objective
from unequal.training.three_heads import PERIODS, BalancedHeads, BestHead

SCHEDULE = NoiseSchedule.linear(50)
RATIO = torch.cumprod(1 - torch.linspace(2e-3, 0.4, 50, dtype=torch.float64), 0)
T = torch.tensor([0, 7, 20, 35, 49])
#: Bins of ten timesteps.
BINS = Partition.of_lengths([10] * 5)
BUDGET = 100


def best_head(compare: Literal["common", "native"] = "common", weights: Tensor | None = None) -> BestHead:
    return BestHead(BINS, BUDGET, compare, weights)


def balanced_heads(half_life: int = 10) -> BalancedHeads:
    return BalancedHeads(BINS, BUDGET, half_life)


def coefficients() -> tuple[Tensor, Tensor]:
    ratio = RATIO[T].float().reshape(-1, 1, 1, 1)
    return ratio.sqrt(), (1 - ratio).sqrt()


def targets(batch: Batch) -> dict[str, Tensor]:
    alpha, sigma = coefficients()
    return {"sample": batch.x0, "epsilon": batch.epsilon, "v_prediction": alpha * batch.epsilon - sigma * batch.x0}


def wrong_by(batch: Batch, errors: Tensor) -> Tensor:
    truth = targets(batch)
    return torch.cat([truth[head] + errors[i].reshape(-1, 1, 1, 1) for i, head in enumerate(HEADS)], dim=1)


def answered(objective: Objective, batch: Batch, output: Tensor) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """(weighted loss [B], gradient of its sum at the output, terms)."""
    leaf = output.clone().requires_grad_(True)
    losses = objective(Denoiser(lambda sample, timestep: leaf, SCHEDULE, "mixed"), batch)
    losses.weighted.sum().backward()
    assert leaf.grad is not None
    return losses.weighted.detach(), leaf.grad, losses.terms


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("compare", ["common", "native"])
def test_only_the_best_head_learns(head, compare, batch):
    chosen = HEADS.index(head)
    errors = torch.full((3, 5), 1000.0)
    errors[chosen] = 0.1
    weighted, gradient, terms = answered(best_head(compare), batch, wrong_by(batch, errors))
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


@pytest.mark.parametrize("compare", ["common", "native"])
def test_heads_are_compared_in_the_space_of_x0_or_by_their_losses(compare, batch):
    """In the space of x0 these errors are 0.5, 0.45 and 0.4 at every timestep: there ε is best throughout."""
    alpha, sigma = (table.flatten() for table in coefficients())
    errors = torch.stack([torch.full((5,), 0.5), 0.45 / sigma, 0.4 * alpha / sigma])
    _, gradient, terms = answered(best_head(compare), batch, wrong_by(batch, errors))
    best = errors.argmin(0) if compare == "native" else torch.full((5,), 2)
    assert compare == "common" or len(set(best.tolist())) == 2, "the case is empty if one head is best throughout"
    for i, head in enumerate(HEADS):
        assert float(terms[f"wins_{head}"]) == pytest.approx(float((best == i).float().mean()))
        assert torch.equal((gradient[:, i] != 0).flatten(1).all(1), best == i)


def test_the_loss_of_the_best_head_has_that_heads_weight(batch):
    best, each = torch.tensor([0, 1, 2, 0, 1]), torch.arange(5)
    errors, table = torch.full((3, 5), 1000.0), torch.rand(3, 50, generator=torch.Generator().manual_seed(0))
    errors[best, each] = 0.1
    weighted, _, _ = answered(best_head("common", table), batch, wrong_by(batch, errors))
    torch.testing.assert_close(weighted, 0.01 * table[best, T] * batch.weights, rtol=1e-3, atol=0)


def errors_of(*means: float) -> Tensor:
    return torch.tensor(means).sqrt()[:, None].expand(3, 5)


def trained_on(objective: Objective, batch: Batch, errors: Tensor) -> None:
    answered(objective, batch, wrong_by(batch, errors))
    objective.end_step(lambda sums: sums)


def scale_of(objective: BalancedHeads) -> Tensor:
    return objective.means.at(torch.arange(50))


@pytest.mark.parametrize("scales", [(1.0, 1.0, 1.0), (2.0, 4.0, 5.0)])
def test_each_head_learns_by_its_own_loss_over_its_scale(batch, scales):
    """d/do of the mean over 3 heads and 16 pixels of (o − truth)²/scale; an untrained scale is 1."""
    objective = balanced_heads()
    if scales[0] > 1:
        objective.means.sums.copy_(torch.tensor(scales).expand(5, 3))
    errors = torch.tensor([0.1, 0.3, 0.2])[:, None].expand(3, 5)
    weighted, gradient, _ = answered(objective, batch, wrong_by(batch, errors))
    expected = sum(error**2 / scale for error, scale in zip((0.1, 0.3, 0.2), scales, strict=True)) / 3
    torch.testing.assert_close(weighted, expected * batch.weights, rtol=1e-4, atol=0)
    for i, scale in enumerate(scales):
        by_hand = 2 * errors[i, 0] / 16 / scale / 3 * batch.weights.reshape(-1, 1, 1).expand(5, 4, 4)
        torch.testing.assert_close(gradient[:, i], by_hand, rtol=1e-3, atol=1e-7)


def test_the_scale_is_a_running_mean_with_a_half_life(batch):
    """Five images a step halve what was there before: (1·¼ + a·½ + b)/(¼ + ½ + 1) after losses a and b."""
    objective = balanced_heads(half_life=5)
    trained_on(objective, batch, errors_of(0.04, 0.09, 0.16))
    trained_on(objective, batch, errors_of(0.01, 0.02, 0.03))
    expected = torch.tensor([(0.25 + a / 2 + b) / 1.75 for a, b in ((0.04, 0.01), (0.09, 0.02), (0.16, 0.03))])
    # One image of each batch is of timesteps 20 … 29.
    torch.testing.assert_close(scale_of(objective)[:, 20:30], expected[:, None].expand(3, 10), rtol=1e-4, atol=0)


@pytest.mark.parametrize("build", [best_head, balanced_heads])
def test_a_batch_in_parts_teaches_what_the_batch_does(build, batch):
    output = wrong_by(batch, torch.rand(3, 5, generator=torch.Generator().manual_seed(1)) + 0.1)
    whole, in_parts = build(), build()
    for objective, parts in ((whole, [slice(0, 5)]), (in_parts, [slice(0, 2), slice(2, 5)])):
        for part in parts:
            rows = Batch(batch.x0[part], batch.epsilon[part], batch.timesteps[part], batch.weights[part])
            objective(Denoiser(lambda sample, timestep, part=part: output[part], SCHEDULE, "mixed"), rows)
        objective.end_step(lambda sums: sums)
    for name, value in whole.state_dict().items():
        torch.testing.assert_close(in_parts.state_dict()[name], value, rtol=1e-6, atol=0)


def test_sums_of_all_processes_are_taken_in(batch):
    """Three processes that saw the same count as three batches in one step."""
    objective = balanced_heads(half_life=15)
    answered(objective, batch, wrong_by(batch, errors_of(0.04, 0.09, 0.16)))
    objective.end_step(lambda sums: 3 * sums)
    assert float(objective.statistics()["images"].sum()) == 15
    torch.testing.assert_close(scale_of(objective)[1, 40], torch.tensor((1 / 2 + 3 * 0.09) / (1 / 2 + 3)))


@pytest.mark.parametrize("objective", [best_head("common"), best_head("native"), balanced_heads()])
def test_statistics_count_every_image_once(objective, batch):
    generator = torch.Generator().manual_seed(2)
    logged = torch.zeros(3)
    for _ in range(20):
        _, _, terms = answered(objective, batch, wrong_by(batch, torch.rand(3, 5, generator=generator)))
        logged += torch.stack([terms[f"wins_{head}"] for head in HEADS])
        objective.end_step(lambda sums: sums)
    tables = objective.statistics()
    # 20 steps of 5 images are the budget of 100: one step in each of the 20 parts; timesteps 0 and 7 share a bin.
    np.testing.assert_array_equal(tables["images"], np.tile([2, 0, 1, 1, 1], (PERIODS, 1)))
    np.testing.assert_array_equal(tables["wins"].sum(2), tables["images"])
    np.testing.assert_allclose(tables["wins"].sum((0, 1)) / 100, logged / 20, rtol=1e-6)
    np.testing.assert_array_equal(tables["bins"], BINS.members)


def test_statistics_sum_the_errors_of_each_head(batch):
    alpha, sigma = (table.flatten() for table in coefficients())
    objective = best_head("native")
    errors = torch.rand(3, 5, generator=torch.Generator().manual_seed(3)) + 0.1
    trained_on(objective, batch, errors)
    tables = objective.statistics()
    common = errors**2 * torch.stack([torch.ones(5), sigma**2, (sigma / alpha) ** 2])
    for name, expected in (("losses", errors**2), ("errors", common)):
        by_bin = torch.stack([expected[:, torch.from_numpy(BINS.members)[T] == i].sum(1) for i in range(5)])
        np.testing.assert_allclose(tables[name][0], by_bin, rtol=1e-3, atol=1e-9)
    least = torch.stack([common.min(0).values[torch.from_numpy(BINS.members)[T] == i].sum() for i in range(5)])
    np.testing.assert_allclose(tables["least_errors"][0], least, rtol=1e-3, atol=1e-9)


def test_what_goes_beyond_the_budget_belongs_to_its_last_part(batch):
    objective = best_head()
    for _ in range(23):
        trained_on(objective, batch, errors_of(0.1, 0.2, 0.3))
    assert objective.statistics()["images"].sum(1).tolist() == [*19 * [5.0], 20.0]


FLOW = Flow(50, 3.0)


def answers_on_flow(batch: Batch, errors: list[float]) -> Tensor:
    levels = FLOW.at(batch.timesteps, batch.x0)
    right = [target(head, batch.x0, batch.epsilon, *levels) for head in HEADS_OF_FLOW]
    return torch.cat([one + off for one, off in zip(right, errors, strict=True)], dim=1)


def test_on_a_flow_each_heads_loss_is_the_error_of_what_it_predicts(batch):
    seen: list[Tensor] = []

    def net(sample: Tensor, timestep: Tensor) -> Tensor:
        seen.append(timestep)
        return answers_on_flow(batch, [0.1, 0.2, 0.3])

    found = BalancedHeads(BINS, 100, 8)(Denoiser(net, FLOW, "mixed"), batch)
    torch.testing.assert_close(found.weighted, (0.01 + 0.04 + 0.09) / 3 * batch.weights, rtol=1e-4, atol=0)
    torch.testing.assert_close(seen[0], (1000 * FLOW.sigma)[T].float())


def test_on_a_flow_the_best_head_has_the_least_error_of_x0(batch):
    errors = [0.2, 0.3, 0.05]
    objective = BestHead(BINS, 100, "common")
    objective(Denoiser(lambda sample, timestep: answers_on_flow(batch, errors), FLOW, "mixed"), batch)
    objective.end_step(lambda sums: sums)
    factors = torch.stack([x0_error_factor(head, FLOW.alpha, FLOW.sigma)[T] for head in HEADS_OF_FLOW])
    wins = torch.nn.functional.one_hot((factors * torch.tensor(errors)[:, None] ** 2).argmin(0), 3).sum(0)
    assert objective.statistics()["wins"].sum((0, 1)).tolist() == wins.tolist()
    assert (wins > 0).sum() > 1
