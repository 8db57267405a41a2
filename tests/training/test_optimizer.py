"""Learning rate over the budget, and AdamW's state as named tensors."""

from typing import Any

import pytest
import torch
from torch import nn

from unequal.settings.recipe import MomentumDecay, Optimizer
from unequal.training.optimizer import (
    build_optimizer,
    compensation,
    learning_rate,
    momentum,
    restore_objective,
    set_schedule,
)

CPU = torch.device("cpu")


def settings(**changes: Any) -> Optimizer:
    plain = {"lr": 1e-2, "betas": (0.8, 0.95), "weight_decay": 0.1, "warmup_images": 0, "decay": "constant"}
    return Optimizer(**(plain | changes))


def descend(net: nn.Linear, optimizer: torch.optim.AdamW, steps: int) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        net(torch.ones(1, 2)).square().sum().backward()
        optimizer.step()


def test_moments_of_an_objective_come_to_its_device():
    objective = nn.Linear(2, 1, bias=False, device="meta")  # stands for a GPU
    optimizer = torch.optim.AdamW(objective.parameters())
    restore_objective(optimizer, objective, {"weight.exp_avg": torch.ones(1, 2)})
    assert optimizer.state[objective.weight]["exp_avg"].device.type == "meta"


def linear() -> nn.Linear:
    net = nn.Linear(2, 1)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[1.0, 2.0]]))
        net.bias.fill_(3.0)
    return net


def test_the_first_step_is_adamws():
    net = linear()
    descend(net, build_optimizer(net.parameters(), settings(), CPU), 1)
    # Weight decay times lr, then a step of lr against the gradient's sign.
    assert net.bias.item() == pytest.approx(3 * (1 - 1e-2 * 0.1) - 1e-2, rel=1e-5)


WARM_UP = {"warmup_images": 100}
COSINE, LINEAR = {"decay": "cosine"}, {"decay": "linear"}
TO_NOTHING, LATE = LINEAR | {"final_share": 0.0}, COSINE | {"decay_share": 0.25}


@pytest.mark.parametrize(
    ("chosen", "shares"),
    [
        (WARM_UP, {0: 0.01, 9: 0.1, 49: 0.5, 99: 1, 100: 1, 700: 1}),
        (COSINE, {0: 1, 250: 0.55 + 0.45 * 0.5**0.5, 500: 0.55, 1000: 0.1, 2000: 0.1}),
        (TO_NOTHING, {0: 1, 250: 0.75, 1000: 0, 2000: 0}),
        (LINEAR, {0: 1, 250: 0.1 + 0.9 * 0.75, 1000: 0.1, 2000: 0.1}),
        # A rate that falls in the last quarter stands before.
        (LATE, {0: 1, 749: 1, 750: 1, 875: 0.55, 1000: 0.1, 1100: 0.1}),
        # Warm-up and decay multiply.
        (COSINE | {"warmup_images": 1001}, {500: 0.55 * 501 / 1001}),
    ],
)
def test_the_learning_rate_over_the_budget(chosen, shares):
    found = {seen: learning_rate(settings(**chosen), seen, 1000) / 1e-2 for seen in shares}
    assert found == pytest.approx(shares)


def decaying(kind: str, floor: float = 0.0, compensate: str = "none", **changes: Any) -> Optimizer:
    decay = MomentumDecay(kind=kind, floor=floor, lr_compensation=compensate)
    return settings(momentum_decay=decay, betas=(0.9, 0.999), **changes)


@pytest.mark.parametrize(
    ("kind", "floor", "progress", "expected"),
    [
        ("demon", 0.0, 0.0, 0.9),
        ("demon", 0.0, 0.5, 0.45 / 0.55),  # 0.9·0.5 / (0.1 + 0.9·0.5)
        ("demon", 0.0, 1.0, 0.0),
        ("demon", 0.3, 1.0, 0.3),
        ("linear", 0.0, 0.25, 0.675),
        ("linear", 0.5, 0.9, 0.5),
        ("exponential", 0.1, 0.5, 0.3),  # the geometric mean of 0.9 and 0.1
        ("exponential", 0.1, 1.0, 0.1),
    ],
)
def test_momentum_falls_as_its_kind_says(kind, floor, progress, expected):
    assert momentum(decaying(kind, floor), round(progress * 1000), 1000) == pytest.approx(expected)
    assert momentum(settings(), round(progress * 1000), 1000) == 0.8, "without decay it stays"


@pytest.mark.parametrize("seen", [0, 300, 900])
def test_raised_rate_keeps_the_length_of_sgds_steps(seen):
    chosen = decaying("demon", compensate="raise", name="sgd")
    first = momentum(chosen, seen, 1000)
    # Under a constant gradient SGD's velocity tends to g/(1 − β): its steps have length lr/(1 − β).
    assert chosen.lr * compensation(chosen, first) / (1 - first) == pytest.approx(chosen.lr / (1 - 0.9))
    lowered = decaying("demon", compensate="lower", name="sgd")
    assert compensation(lowered, first) == pytest.approx(1 / compensation(chosen, first))


@pytest.mark.parametrize("name", ["adamw", "sgd"])
def test_the_schedule_reaches_the_optimizer(name):
    chosen = decaying("linear", name=name, decay="cosine")
    optimizer = build_optimizer(linear().parameters(), chosen, CPU)
    set_schedule(optimizer, chosen, 500, 1000)
    (group,) = optimizer.param_groups
    assert group["lr"] == pytest.approx(learning_rate(chosen, 500, 1000))
    assert (group["betas"][0] if name == "adamw" else group["momentum"]) == pytest.approx(0.45)
