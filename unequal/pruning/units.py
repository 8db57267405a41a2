"""The smallest pieces that can be pruned, and how important each of them is.

A unit is one channel of each norm group of a layer (so that GroupNorm still divides them), or one
whole attention head. Everything coupled to those channels goes with them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from diffusers.models.unets.unet_2d import UNet2DModel
from torch import Tensor, nn

from unequal.errors import UserError
from unequal.models.pruned import attentions, dependency_graph

#: One dependency group of torch-pruning → importance of each channel of its root, [channels].
Importance = Callable[[Any], Tensor]


@dataclass(frozen=True)
class Unit:
    """Channels of one layer that are removed together, and their mean importance."""

    layer: str
    channels: tuple[int, ...]
    importance: float


def importance_of(method: str, seed: int) -> Importance:
    """Importance by `random`, `magnitude` (‖w‖₂) or `taylor` (|w·∂L/∂w|), relative to the layer's mean.

    `taylor` reads the gradients that stand in the network.
    """
    import torch_pruning as tp

    match method:
        case "random":
            generator = torch.Generator().manual_seed(seed)
            return lambda group: torch.rand(len(group[0].idxs), generator=generator)
        case "magnitude":
            return tp.importance.GroupMagnitudeImportance(p=2, normalizer="mean")
        case "taylor":
            return tp.importance.GroupTaylorImportance(normalizer="mean")
    raise UserError(f"pruning method '{method}' is unknown; allowed: random, magnitude, taylor")


def prunable_units(net: UNet2DModel, importance: Importance) -> list[Unit]:
    """All units of a network, the least important first; of each layer, the last one is kept.

    Left alone are the output (its channels are the image's) and the time embedding (its cost is
    negligible, and every block reads it).
    """
    names = {module: name for name, module in net.named_modules()}
    units = []
    for root, group, heads in prunable_groups(net):
        scores = importance(group).detach().cpu()
        pieces = (
            torch.arange(len(scores)).reshape(heads, -1)
            if heads
            else across_norm_groups(scores, net.config["norm_num_groups"])
        )
        layer = [Unit(names[root], tuple(piece.tolist()), float(scores[piece].mean())) for piece in pieces]
        units += sorted(layer, key=lambda unit: unit.importance)[:-1]
    return sorted(units, key=lambda unit: (unit.importance, unit.layer))


def prunable_groups(net: UNet2DModel) -> Iterator[tuple[nn.Module, Any, int]]:
    """(root layer, its dependency group, number of attention heads or 0) of everything prunable."""
    graph = dependency_graph(net)
    for group in graph.get_all_groups(ignored_layers=[net.conv_out], root_module_types=[nn.Conv2d]):
        yield group[0].dep.target.module, group, 0
    import torch_pruning as tp

    for attention, width in attentions(net):
        size = attention.to_q.out_features
        group = graph.get_pruning_group(attention.to_q, tp.prune_linear_out_channels, idxs=list(range(size)))
        yield attention.to_q, group, size // width


def across_norm_groups(scores: Tensor, norm_groups: int) -> Tensor:
    """Channels as units [units, norm_groups]: unit j holds the j-th least important of each norm group."""
    order = scores.reshape(norm_groups, -1).argsort(dim=1)
    offsets = torch.arange(norm_groups)[:, None] * order.shape[1]
    return (order + offsets).T
