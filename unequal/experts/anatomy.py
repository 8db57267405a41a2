"""Anatomy of a network for pruning: its cost as a formula, its units, and schemes of ratios.

The cost is a formula, so that thousands of choices can be compared without making one: a convolution takes positions ×
kernel area × inputs × outputs multiply–accumulates, a linear layer the same with an area of 1, and each removed channel
takes a known number of inputs and outputs from each of them.

A unit is the smallest piece that can be pruned: one channel of each norm group of a layer (so that GroupNorm still
divides them), or one whole attention head. Everything coupled to those channels goes with them.

A network has some 20 to 70 prunable layers, too many figures to be decided by some ten trials, and more than a person
reads; its backbone names a handful of blocks, a U-Net's resolutions. A scheme is a share of each block's units; within
a block an importance decides which units go. Any limit can be met from any scheme: it is scaled until it does.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unequal.models.backbones.backbone import Weighted, positions_of
from unequal.models.pruned import Block, PrunableLayer, prunable_kind_of

#: One dependency group of torch-pruning → importance of each channel of its root, [channels].
Importance = Callable[[Any], Tensor]
#: Block → share of its units that goes, from 0 (none) to 1 (all that can).
Scheme = Mapping[str, float]


class Anatomy:
    """The prunable layers of a network, and its cost with some of their channels removed."""

    def __init__(self, net: nn.Module) -> None:
        self.net = net
        self.layers = list(prunable_kind_of(net).layers(net))
        self.index = {layer.name: i for i, layer in enumerate(self.layers)}
        positions = positions_of(net)
        modules = list(positions)
        self._positions = np.array(list(positions.values()))
        self._areas = np.array([module.weight[0, 0].numel() for module in modules])
        self._shape = np.array([module.weight.shape[:2] for module in modules]).T
        self._shares = shares(self.layers, modules)

    def macs(self, removed: np.ndarray) -> int:
        """Multiply–accumulates of one image, without attention's products.

        Args:
            removed: [layers], channels removed from each of `layers`.
        """
        return int(self._positions @ self._weights(removed))

    def weights(self, removed: np.ndarray) -> int:
        """Weights of all convolutions and linear layers, without biases; `removed` as above."""
        return int(self._weights(removed).sum())

    def _weights(self, removed: np.ndarray) -> np.ndarray:
        outputs, inputs = self._shape - self._shares @ removed
        return self._areas * outputs * inputs


def shares(layers: Sequence[PrunableLayer], modules: list[Weighted]) -> np.ndarray:
    """Outputs and inputs that each module loses with a channel of each layer, [2, modules, layers]."""
    import torch_pruning as tp

    row: dict[nn.Module, int] = {module: i for i, module in enumerate(modules)}
    table = np.zeros((2, len(modules), len(layers)), dtype=np.int64)
    for column, layer in enumerate(layers):
        for dependency, channels in layer.group:
            module = dependency.target.module
            if module in row:
                inputs = dependency.handler not in (tp.prune_conv_out_channels, tp.prune_linear_out_channels)
                table[int(inputs), row[module], column] += len(channels) // layer.channels
        lost = np.array([(row[module], *pair) for module, *pair in layer.lost], dtype=np.int64).reshape(-1, 3)
        table[:, lost[:, 0], column] += lost[:, 1:].T
    return table


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


def blocks_of(ranking: Sequence[Unit]) -> dict[str, list[Unit]]:
    """The units of each block, in the order of the ranking; blocks in the order in which an image passes them."""
    blocks: dict[Block, list[Unit]] = {}
    for unit in ranking:
        blocks.setdefault(unit.block, []).append(unit)
    return {block.name: blocks[block] for block in sorted(blocks)}


def scaled_order(ranking: Sequence[Unit], scheme: Scheme) -> list[Unit]:
    """The units in the order in which they go while a scheme is scaled up, the first to go first.

    Scaled by −1 ≤ s ≤ 0, a ratio r is r·(1 + s), from none to the scheme itself; by 0 ≤ s ≤ 1 it is
    r + s·(1 − r), up to all. So s = 0 stands between what the scheme removes and what it keeps, and the proportions
    are kept for limits above and below.

    Args:
        ranking: all units that may go, the least important first.
        scheme: of every block that the ranking has.
    """
    scales: dict[Unit, float] = {}
    for block, units in blocks_of(ranking).items():
        for i, unit in enumerate(units):
            scales[unit] = scale_at(scheme[block], (i + 0.5) / len(units))
    return sorted(ranking, key=scales.__getitem__)


def random_scheme(blocks: Sequence[str], generator: np.random.Generator) -> dict[str, float]:
    """Ratios drawn uniformly from [0, 1); the limit scales them."""
    return dict(zip(blocks, generator.random(len(blocks)).tolist(), strict=True))


def scale_at(ratio: float, share: float) -> float:
    """The scale s at which a ratio has become a share in (0, 1)."""
    return share / ratio - 1 if share < ratio else (share - ratio) / (1 - ratio)


def scheme_of(gone: Sequence[Unit], ranking: Sequence[Unit]) -> dict[str, float]:
    """The scheme that a choice of units amounts to."""
    lost = {block: len(units) for block, units in blocks_of(gone).items()}
    return {block: lost.get(block, 0) / len(units) for block, units in blocks_of(ranking).items()}
