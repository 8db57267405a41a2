"""Merging networks that were trained on from one base: the base, moved by what each of them has learned since.

θ = θ_base + Σ_i w_i·(θ_i − θ_base) is task arithmetic (2212.04089); Decouple-Then-Merge (2410.06664) makes one
diffusion model so of experts for ranges of timesteps.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from unequal.errors import UserError

Weights = Mapping[str, Tensor]


def task_vector(base: Weights, trained: Weights) -> Tensor:
    """What training has changed, θ_i − θ_base, as one vector in the order of the base's names.

    Raises:
        UserError: the two are not of one architecture.
    """
    for name in sorted({*base, *trained}):
        if name not in base or name not in trained or base[name].shape != trained[name].shape:
            raise UserError(f"weights '{name}' differ from the base's in shape; only unpruned experts can be merged")
    return torch.cat([(trained[name] - weights).flatten() for name, weights in base.items()])


def moved(base: Weights, change: Tensor) -> dict[str, Tensor]:
    """The base with a change added to all its weights, laid out as a task vector."""
    parts = change.split([weights.numel() for weights in base.values()])
    return {name: weights + part.view_as(weights) for (name, weights), part in zip(base.items(), parts, strict=True)}


def shares(weights: str | float | Sequence[float], experts: int) -> list[float]:
    """The weight w_i of each of N task vectors.

    Args:
        weights: `mean` (1/N each), one number for all, or N numbers.
        experts: N.

    Raises:
        UserError: another number of weights than of experts.
    """
    if isinstance(weights, str):
        return [1 / experts] * experts
    if isinstance(weights, int | float):
        return [float(weights)] * experts
    if len(weights) != experts:
        raise UserError(f"merging.weights: {len(weights)} weights for {experts} experts; allowed: one for each")
    return list(weights)
