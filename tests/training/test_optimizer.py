"""Optimizers by name, their moments by parameter name, and the learning rate over the budget."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from unequal.errors import UserError
from unequal.settings.recipe import MomentumDecay, Optimizer
from unequal.training.optimizer import (
    OPTIMIZERS,
    build_optimizer,
    check_optimizer,
    compensation,
    evaluated_weights,
    learning_rate,
    load_moments,
    moments,
    momentum,
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
    load_moments(optimizer, objective, {"weight.exp_avg": torch.ones(1, 2)})
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


def step(net: nn.Module, optimizer: torch.optim.Optimizer, inputs: Tensor) -> None:
    optimizer.zero_grad()
    net(inputs).square().sum().backward()
    optimizer.step()


def network(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_moments_come_back_by_name_whatever_the_groups(name):
    """All parameters of the network and of the objective have equal shapes: an order would mix them up in silence."""
    inputs, chosen = torch.randn(4, 3), settings(name=name, betas=(0.8, 0.999))

    def made() -> tuple[nn.Sequential, nn.Linear, torch.optim.Optimizer]:
        net, objective = network(), nn.Linear(3, 3)
        return net, objective, build_optimizer(net.parameters(), chosen, CPU, objective.parameters())

    net, objective, optimizer = made()
    for _ in range(3):
        step(nn.Sequential(net, objective), optimizer, inputs)
    other_net, other_objective, other = made()
    other_net.load_state_dict(net.state_dict())
    other_objective.load_state_dict(objective.state_dict())
    for module, same in ((objective, other_objective), (net, other_net)):
        load_moments(other, same, dict(reversed(moments(optimizer, module).items())))
        assert moments(other, same).keys() == moments(optimizer, module).keys() != set()
    for pair in ((net, objective, optimizer), (other_net, other_objective, other)):
        for _ in range(2):
            step(nn.Sequential(*pair[:2]), pair[2], inputs)
    for one, other_one in ((net, other_net), (objective, other_objective)):
        torch.testing.assert_close(one.state_dict(), other_one.state_dict(), rtol=0, atol=0)


def test_muon_steps_matrices_and_adamw_all_else():
    net = network()
    optimizer = build_optimizer(net.parameters(), settings(name="muon"), CPU)
    step(net, optimizer, torch.randn(4, 3))
    kept = {name: {one.rpartition(".")[2] for one in moments(optimizer, layer)} for name, layer in net.named_children()}
    assert kept == {"0": {"momentum_buffer", "step", "exp_avg", "exp_avg_sq"}, "1": set()} | {"2": kept["0"]}
    assert moments(optimizer, net).keys() >= {"0.weight.momentum_buffer", "2.bias.exp_avg"}
    assert "0.bias.momentum_buffer" not in moments(optimizer, net)


def test_schedule_free_evaluates_the_average_of_its_iterates():
    """x = Σ c_i·z_i/Σ c_i, with c_i the square of the highest rate so far; gradients are taken between x and z."""
    net, chosen, iterates, counts = network().double(), settings(name="schedule_free_adamw"), [], []
    optimizer, parameters = build_optimizer(net.parameters(), chosen, CPU), list(net.parameters())
    for lr in (1e-3, 1e-2, 5e-3, 2e-2):
        optimizer.param_groups[0]["lr"] = lr
        step(net, optimizer, torch.randn(4, 3).double())
        iterates.append([optimizer.state[value]["z"].clone() for value in parameters])
        counts.append(max([*counts[-1:], lr**2]))
    for place, (value, x) in enumerate(zip(parameters, evaluated_weights(optimizer, parameters), strict=True)):
        mean = sum(count * one[place] for count, one in zip(counts, iterates, strict=True)) / sum(counts)
        torch.testing.assert_close(x, mean)
        torch.testing.assert_close(value.detach(), 0.2 * iterates[-1][place] + 0.8 * x)


DEMON = MomentumDecay(kind="demon", floor=0, lr_compensation="none")


class Lion(torch.optim.Optimizer):
    """2302.06675, in a few lines: what another optimizer takes to be added."""

    def __init__(self, groups: Any, lr: float, betas: Any, decay: float, fused: bool, *, rate: float = 1.0) -> None:
        super().__init__(groups, {"lr": lr, "betas": betas, "weight_decay": decay, "rate": rate})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            (first, second), lr = group["betas"], group["lr"] * group["rate"]
            for value in group["params"]:
                mean = self.state[value].setdefault("mean", torch.zeros_like(value))
                value.mul_(1 - lr * group["weight_decay"]).sub_(mean.lerp(value.grad, 1 - first).sign_(), alpha=lr)
                mean.lerp_(value.grad, 1 - second)


def test_an_optimizer_is_one_entry(build, monkeypatch):
    monkeypatch.setitem(OPTIMIZERS, "lion", Lion)
    chosen = settings(name="lion", keywords={"rate": 0.1}, lr=1e-3)
    check_optimizer(chosen)
    trainer = build(optimizer=chosen)
    trainer.run()
    assert {name.rpartition(".")[2] for name in moments(trainer.optimizer, trainer.net)} == {"mean"}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"name": "adam"}, f"optimizer.name: 'adam'; allowed: {', '.join(OPTIMIZERS)}"),
        ({"keywords": {"epsilon": 1e-8}}, "optimizer.keywords.epsilon: unknown to 'adamw'; allowed: eps, amsgrad"),
        ({"keywords": {"eps": "small"}}, "optimizer.keywords.eps: 'small'; allowed: a float"),
        (
            {
                "name": "schedule_free_adamw",
                "momentum_decay": MomentumDecay(kind="demon", floor=0, lr_compensation="none"),
            },
            "optimizer.momentum_decay: has no meaning for 'schedule_free_adamw'; allowed: null",
        ),
    ],
)
def test_what_no_optimizer_can_be_made_of_is_refused(changes, named):
    with pytest.raises(UserError) as refused:
        check_optimizer(settings(**changes))
    assert named in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"name": "muon"}, "optimizer.name: 'muon': optimizer got an empty parameter list"),
        ({"name": "sgd", "betas": (0.0, 0.999), "keywords": {"nesterov": True}}, "optimizer.name: 'sgd': Nesterov"),
        ({"name": "schedule_free_adamw", "betas": (0.0, 0.9)}, "betas: the first is 0; allowed: above 0"),
    ],
)
def test_what_cannot_train_a_network_is_refused(changes, named):
    with pytest.raises(UserError) as refused:
        build_optimizer([nn.Parameter(torch.zeros(3))], settings(**changes), CPU)
    assert named in str(refused.value)


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
