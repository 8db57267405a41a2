"""AdamW and SGD; their learning rate and momentum as functions of images seen."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from unequal.settings.recipe import MomentumDecay, Optimizer
from unequal.training.checkpoint import strip_prefix
from unequal.training.objectives import Objective

#: Where the settings say nothing else, a falling rate ends at this share of the peak.
FINAL_SHARE = 0.1


def build_optimizer(
    parameters: Iterable[nn.Parameter], settings: Optimizer, device: torch.device
) -> torch.optim.Optimizer:
    """AdamW or SGD, in one fused kernel where the device has it."""
    fused = device.type in ("cpu", "cuda")
    if settings.name == "sgd":
        return torch.optim.SGD(
            parameters, settings.lr, settings.betas[0], weight_decay=settings.weight_decay, fused=fused
        )
    return torch.optim.AdamW(
        parameters, lr=settings.lr, betas=settings.betas, weight_decay=settings.weight_decay, fused=fused
    )


def objective_group(objective: Objective) -> list[dict[str, Any]]:
    """Parameters of an objective, as a group of an optimizer without decay; none where it learns nothing."""
    learned = list(objective.parameters())
    return [{"params": learned, "weight_decay": 0.0}] if learned else []


def restore_objective(optimizer: torch.optim.Optimizer, objective: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Load the moments of an objective's parameters, next to those of a network, where the parameters lie."""
    for name, parameter in objective.named_parameters():
        if state := strip_prefix(f"{name}.", tensors):
            optimizer.state[parameter] = {moment: tensor.to(parameter.device) for moment, tensor in state.items()}


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
