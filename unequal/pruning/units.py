"""The smallest pieces that can be pruned, in the order in which an importance gives them up.

A unit is one channel of each norm group of a layer (so that GroupNorm still divides them), or one
whole attention head. Everything coupled to those channels goes with them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from unequal.models.backbones.prunable import Block, PrunableLayer
from unequal.pruning.anatomy import Anatomy

#: One dependency group of torch-pruning → importance of each channel of its root, [channels].
Importance = Callable[[Any], Tensor]


@dataclass(frozen=True)
class Unit:
    """Channels of one layer that are removed together, their mean importance, and the block of the layer."""

    layer: str
    channels: tuple[int, ...]
    importance: float
    block: Block


def units_by(importance: Importance, anatomy: Anatomy) -> list[Unit]:
    """All units of a network, the least important first; of each layer, the most important is not among them, unless
    the network can do without it."""
    scores = [importance(layer.group).detach().cpu()[layer.rows] for layer in anatomy.layers]
    units = [unit for layer, own in zip(anatomy.layers, scores, strict=True) for unit in spare_units(layer, own)]
    return sorted(units, key=lambda unit: (unit.importance, unit.layer))


def spare_units(layer: PrunableLayer, scores: Tensor) -> list[Unit]:
    """The units of a layer by their channels' scores [channels], all but those that have to be kept."""
    pieces = torch.arange(layer.channels).reshape(layer.parts, -1) if layer.heads else across(scores, layer.parts)
    units = [Unit(layer.name, tuple(piece.tolist()), float(scores[piece].mean()), layer.block) for piece in pieces]
    return sorted(units, key=lambda unit: unit.importance)[: len(units) - layer.kept]


def across(scores: Tensor, norm_groups: int) -> Tensor:
    """Channels as units [units, norm_groups]: unit j holds the j-th least important of each norm group."""
    order = scores.reshape(norm_groups, -1).argsort(dim=1)
    offsets = torch.arange(norm_groups)[:, None] * order.shape[1]
    return (order + offsets).T
