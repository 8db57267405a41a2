"""Optimizers by name; their learning rate and momentum as functions of images seen.

`OPTIMIZERS` has an entry for each: (groups, lr, betas, weight decay, fused; keywords) → optimizer. Its keywords are
those of the settings. A group is a dict of `params` and what is theirs alone; the first group is the network's. All of
an optimizer's memory is tensors by parameter, in `state`, since that is what a checkpoint holds. One whose parameters
are not what a network is evaluated with has a method `evaluated`.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from unequal.errors import UserError
from unequal.settings.recipe import MomentumDecay, Optimizer

if TYPE_CHECKING:
    from unequal.settings.core import Core

#: Where the settings say nothing else, a falling rate ends at this share of the peak.
FINAL_SHARE = 0.1
Groups = Sequence[dict[str, Any]]
Betas = tuple[float, float]


def adamw(
    groups: Groups, lr: float, betas: Betas, decay: float, fused: bool, *, eps: float = 1e-8, amsgrad: bool = False
) -> torch.optim.Optimizer:
    """PyTorch's AdamW."""
    return torch.optim.AdamW(groups, lr, betas, eps, decay, amsgrad, fused=fused)


def sgd(
    groups: Groups, lr: float, betas: Betas, decay: float, fused: bool, *, nesterov: bool = False
) -> torch.optim.Optimizer:
    """PyTorch's SGD with momentum."""
    return torch.optim.SGD(groups, lr, betas[0], weight_decay=decay, nesterov=nesterov, fused=fused)


def muon(
    groups: Groups,
    lr: float,
    betas: Betas,
    decay: float,
    fused: bool,
    *,
    nesterov: bool = True,
    ns_steps: int = 5,
    adjust_lr_fn: str = "match_rms_adamw",
) -> torch.optim.Optimizer:
    """Muon for the network's matrices, AdamW for all else: by default, one learning rate means the same to both."""
    matrices, others = (
        [value for value in groups[0]["params"] if (value.ndim == 2) == wanted] for wanted in (True, False)
    )
    rest = [group for group in ({**groups[0], "params": others}, *groups[1:]) if group["params"]]
    return Together(
        torch.optim.Muon(
            matrices, lr, decay, betas[0], nesterov=nesterov, ns_steps=ns_steps, adjust_lr_fn=adjust_lr_fn
        ),
        *([adamw(rest, lr, betas, decay, fused)] if rest else []),
    )


class Together(torch.optim.Optimizer):
    """Optimizers as one, each with parameters of its own."""

    def __init__(self, *parts: torch.optim.Optimizer) -> None:
        self.parts, self.state = parts, defaultdict(dict)
        self.param_groups = [group for part in parts for group in part.param_groups]
        for part in parts:
            part.state = self.state

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for part in self.parts:
            part.step()

    def zero_grad(self, set_to_none: bool = True) -> None:
        for part in self.parts:
            part.zero_grad(set_to_none)


class ScheduleFreeAdamW(torch.optim.Optimizer):
    """Schedule-Free AdamW (2405.15682): an average x of the iterates z takes the place of a falling learning rate.

    Gradients are taken at the parameters y = (1 − β₁)·z + β₁·x; `evaluated` returns x. An iterate counts by the square
    of the highest rate so far, so that a warm-up counts for little.
    """

    def __init__(
        self, groups: Groups, lr: float, betas: Betas, decay: float, fused: bool, *, eps: float = 1e-8
    ) -> None:
        if betas[0] == 0:
            raise ValueError("betas: the first is 0; allowed: above 0")
        super().__init__(groups, {"lr": lr, "betas": betas, "weight_decay": decay, "eps": eps})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            values = [value for value in group["params"] if value.grad is not None]
            for value in values:
                if not self.state[value]:
                    numbers = {name: torch.zeros((), dtype=torch.float64) for name in ("steps", "highest", "weights")}
                    self.state[value] = {"z": value.clone(), "square": torch.zeros_like(value)} | numbers
            if not values:
                continue
            states = [self.state[value] for value in values]
            (first, second), lr, numbers = group["betas"], group["lr"], states[0]  # which all of them share
            steps, highest = float(numbers["steps"]) + 1, max(lr, float(numbers["highest"]))
            weights = float(numbers["weights"]) + highest**2
            for state in states:
                for name, number in {"steps": steps, "highest": highest, "weights": weights}.items():
                    state[name].fill_(number)
            share = highest**2 / weights
            z, squares = ([state[name] for state in states] for name in ("z", "square"))
            gradients = [value.grad for value in values]
            torch._foreach_mul_(squares, second)
            torch._foreach_addcmul_(squares, gradients, gradients, 1 - second)
            sizes = torch._foreach_sqrt(torch._foreach_div(squares, 1 - second**steps))
            torch._foreach_add_(sizes, group["eps"])
            moves = torch._foreach_div(gradients, sizes)
            torch._foreach_add_(moves, values, alpha=group["weight_decay"])
            torch._foreach_lerp_(values, z, share)
            torch._foreach_add_(values, moves, alpha=lr * (first * (1 - share) - 1))
            torch._foreach_add_(z, moves, alpha=-lr)

    @torch.no_grad()
    def evaluated(self) -> dict[Tensor, Tensor]:
        """x of each parameter that has made a step."""
        return {
            value: value.lerp(self.state[value]["z"], 1 - 1 / group["betas"][0])
            for group in self.param_groups
            for value in group["params"]
            if self.state[value]
        }


#: (groups, lr, betas, weight decay, fused; keywords of the settings) → optimizer.
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adamw": adamw,
    "sgd": sgd,
    "muon": muon,
    "schedule_free_adamw": ScheduleFreeAdamW,
}


def check_optimizers(params: "Core") -> None:
    """Raise UserError where a recipe's optimizer is unknown, or takes no such keywords."""
    for place, recipe in params.placed_recipes.items():
        check_optimizer(recipe.optimizer, f"{place}.optimizer")


def check_optimizer(settings: Optimizer, place: str = "optimizer") -> None:
    """Raise UserError, which names the key, for an optimizer that cannot be made."""
    if settings.name not in OPTIMIZERS:
        raise UserError(f"{place}.name: '{settings.name}'; allowed: {', '.join(OPTIMIZERS)}")
    taken = signature(OPTIMIZERS[settings.name]).parameters.values()
    defaults = {one.name: one.default for one in taken if one.kind is Parameter.KEYWORD_ONLY}
    for name, value in settings.keywords.items():
        if name not in defaults:
            raise UserError(f"{place}.keywords.{name}: unknown to '{settings.name}'; allowed: {', '.join(defaults)}")
        if type(value) not in (kind := type(defaults[name]), *([int] if kind is float else [])):
            raise UserError(f"{place}.keywords.{name}: {value!r}; allowed: a {kind.__name__}")
    if settings.momentum_decay is not None and hasattr(OPTIMIZERS[settings.name], "evaluated"):
        raise UserError(f"{place}.momentum_decay: has no meaning for '{settings.name}'; allowed: null")


def build_optimizer(
    parameters: Iterable[nn.Parameter],
    settings: Optimizer,
    device: torch.device,
    learned: Iterable[nn.Parameter] = (),
) -> torch.optim.Optimizer:
    """The optimizer of the settings, in one fused kernel where there is one.

    Args:
        parameters: of the network.
        settings: of the recipe.
        device: of all parameters.
        learned: parameters of an objective, which do not decay.

    Raises:
        UserError: there is no such optimizer, or it cannot be made for this network.
    """
    check_optimizer(settings)
    groups: list[dict[str, Any]] = [{"params": list(parameters)}]
    if learned := list(learned):
        groups.append({"params": learned, "weight_decay": 0.0})
    try:
        make, fused = OPTIMIZERS[settings.name], device.type in ("cpu", "cuda")
        return make(groups, settings.lr, settings.betas, settings.weight_decay, fused, **settings.keywords)
    except (TypeError, ValueError) as error:
        raise UserError(f"optimizer.name: '{settings.name}': {str(error).splitlines()[0]}") from None


def evaluated_weights(optimizer: torch.optim.Optimizer, parameters: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Weights that a network is evaluated with: its parameters, where the optimizer has no others."""
    others = optimizer.evaluated() if hasattr(optimizer, "evaluated") else {}
    return tuple(others.get(value, value) for value in parameters)


def moments(optimizer: torch.optim.Optimizer, module: nn.Module) -> dict[str, Tensor]:
    """An optimizer's memory of a module's parameters as named tensors: `<parameter>.<moment>`."""
    return {
        f"{parameter}.{name}": moment
        for parameter, value in module.named_parameters()
        for name, moment in optimizer.state.get(value, {}).items()
    }


def load_moments(optimizer: torch.optim.Optimizer, module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Load an optimizer's memory of a module's parameters from named tensors, whatever groups they are in."""
    parameters = dict(module.named_parameters())
    fused = {value for group in optimizer.param_groups if group.get("fused") for value in group["params"]}
    for key, moment in tensors.items():
        parameter, _, name = key.rpartition(".")
        value = parameters[parameter]
        if moment.shape == value.shape and moment.ndim:
            # Fused kernels walk a parameter and its moments side by side in memory: both need the same strides.
            moment = torch.empty_like(value).copy_(moment)
        else:  # a fused kernel counts its steps on the device, others on the host
            moment = moment.to(value.device if value in fused else moment.device, copy=True)
        optimizer.state[value][name] = moment


def set_schedule(optimizer: torch.optim.Optimizer, settings: Optimizer, images_seen: int, budget: int) -> None:
    """Give the optimizer the learning rate and the momentum of this point of the budget."""
    first = momentum(settings, images_seen, budget)
    rate = learning_rate(settings, images_seen, budget) * compensation(settings, first)
    for group in optimizer.param_groups:
        group["lr"] = rate
        if "betas" in group:
            group["betas"] = (first, settings.betas[1])
        else:
            group["momentum"] = first


def learning_rate(settings: Optimizer, images_seen: int, budget: int) -> float:
    """Learning rate after that many of the budget's images."""
    rise = min(1.0, (images_seen + 1) / settings.warmup_images) if settings.warmup_images else 1.0
    rise *= math.prod(reached_milestones(settings.lr_milestones, images_seen).values())
    if settings.decay == "constant":
        return settings.lr * rise
    before, final = 1 - settings.decay_share, settings.final_share
    progress = max(0.0, (min(1.0, images_seen / budget) - before) / settings.decay_share)
    fall = 0.5 * (1 + math.cos(math.pi * progress)) if settings.decay == "cosine" else 1 - progress
    final = FINAL_SHARE if final is None else final
    return settings.lr * rise * (final + (1 - final) * fall)


def reached_milestones(milestones: Mapping[int, float], images_seen: int) -> dict[int, float]:
    """Return the milestones that count after that many images."""
    return {images: factor for images, factor in milestones.items() if images <= images_seen}


def momentum(settings: Optimizer, images_seen: int, budget: int) -> float:
    """Coefficient of the first moment after that many of the budget's images."""
    beta, chosen = settings.betas[0], settings.momentum_decay
    if chosen is None:
        return beta
    return max(chosen.floor, decayed(chosen, beta, min(1.0, images_seen / budget)))


def decayed(decay: MomentumDecay, beta: float, progress: float) -> float:
    """β_s at a progress τ in [0, 1]: Demon's β(1−τ)/((1−β) + β(1−τ)) (1910.04952), β(1−τ), or β(floor/β)^τ."""
    left = 1 - progress
    match decay.kind:
        case "demon":
            return beta * left / ((1 - beta) + beta * left)
        case "linear":
            return beta * left
        case "exponential":
            return beta * (decay.floor / beta) ** progress


def compensation(settings: Optimizer, first: float) -> float:
    """Factor of the learning rate where the momentum has fallen to `first`.

    SGD's steps sum up to lr/(1 − β) times the gradient: (1 − β_s)/(1 − β_0) keeps that as β falls. Adam's first moment
    is an average, whose steps do not depend on β: there the factor is a second schedule of the learning rate. Paper 2
    names its method after a compensation (MDLRC). Its formula and direction are not in the sources at hand, so both
    directions are here.
    """
    chosen = settings.momentum_decay
    if chosen is None or chosen.lr_compensation == "none":
        return 1.0
    factor = (1 - first) / (1 - settings.betas[0])
    return factor if chosen.lr_compensation == "raise" else 1 / factor
