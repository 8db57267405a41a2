"""AdamW and its learning rate as a function of images seen."""

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from unequal.settings.recipe import Optimizer

#: Cosine decay ends at this share of the peak.
FINAL_SHARE = 0.1


def build_optimizer(parameters: Iterable[nn.Parameter], settings: Optimizer, device: torch.device) -> torch.optim.AdamW:
    """AdamW, in one fused kernel where the device has it."""
    fused = device.type in ("cpu", "cuda")
    return torch.optim.AdamW(
        parameters, lr=settings.lr, betas=settings.betas, weight_decay=settings.weight_decay, fused=fused
    )


def learning_rate(settings: Optimizer, images_seen: int, budget: int) -> float:
    """Learning rate after that many of the budget's images."""
    rise = min(1.0, (images_seen + 1) / settings.warmup_images) if settings.warmup_images else 1.0
    if settings.decay == "constant":
        return settings.lr * rise
    fall = 0.5 * (1 + math.cos(math.pi * min(1.0, images_seen / budget)))
    return settings.lr * rise * (FINAL_SHARE + (1 - FINAL_SHARE) * fall)


def moments(optimizer: torch.optim.AdamW) -> dict[str, Tensor]:
    """The optimizer's state as named tensors: `<parameter number>.<moment>`."""
    return {
        f"{number}.{name}": value
        for number, state in optimizer.state_dict()["state"].items()
        for name, value in state.items()
    }


def load_moments(optimizer: torch.optim.AdamW, tensors: dict[str, Tensor]) -> None:
    """Put named tensors back."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        number, name = key.split(".")
        state.setdefault(int(number), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
