"""Merging networks that were trained on from one base: the base, moved by what each of them has learned since.

θ = θ_base + Σ_i w_i·(θ_i − θ_base) is task arithmetic (2212.04089); Decouple-Then-Merge (2410.06664) makes one
diffusion model so of experts for ranges of timesteps.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from unequal.errors import UserError
from unequal.models.finite import check_finite

Weights = Mapping[str, Tensor]


class Merged(NamedTuple):
    """Merged weights, and how what the networks have learned goes together.

    Attributes:
        weights: by name.
        relative_lengths: of each task vector, as a share of the base's weights.
        length_over_orthogonal: length of the weighted sum, over what it would be were the task vectors orthogonal. 1:
            what the networks have learned is orthogonal; √N: all have learned the same; less than 1: they disagree.
            None where no weight moves.
    """

    weights: dict[str, Tensor]
    relative_lengths: list[float]
    length_over_orthogonal: float | None


def merge(base: Weights, trained: Iterable[Weights], factors: Sequence[float]) -> Merged:
    """θ_base + Σ_i w_i·(θ_i − θ_base).

    Args:
        base: from which all were trained on.
        trained: N networks' weights, taken one after the other, so that never more than one need be in memory.
        factors: w_i of each.

    Raises:
        UserError: one is not of the base's architecture, or the merged weights are not finite.
    """
    change, lengths = torch.zeros(sum(weights.numel() for weights in base.values())), list[float]()
    for factor, weights in zip(factors, trained, strict=True):
        vector = task_vector(base, weights)
        change += factor * vector
        lengths.append(float(vector.norm()))
    merged = moved(base, change)
    check_finite(merged, "merging")
    whole = float(torch.cat([weights.flatten() for weights in base.values()]).norm())
    orthogonal = math.hypot(*(factor * length for factor, length in zip(factors, lengths, strict=True)))
    agreement = float(change.norm()) / orthogonal if orthogonal else None
    return Merged(merged, [length / whole for length in lengths], agreement)


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
