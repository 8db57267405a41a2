"""What of a network can be pruned, what hangs together with it, and what the network then costs.

The cost is a formula, so that thousands of choices can be compared without making one: a convolution
takes positions × kernel area × inputs × outputs multiply–accumulates, a linear layer the same with an
area of 1, and each removed channel takes a known number of inputs and outputs from each of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from diffusers.models.unets.unet_2d import UNet2DModel
from torch import Tensor, nn

from unequal.models.network import example_inputs
from unequal.models.pruned import attentions, dependency_graph

Weighted = nn.Conv2d | nn.Linear


@dataclass(frozen=True)
class Layer:
    """Channels that can be removed, with all that shrinks along with them.

    `name` is the layer whose outputs they are, the first of several that are added up; `group` is torch-pruning's
    list of everything coupled to it; `parts` says into how many equal parts a removal must not cut: norm groups of
    which each loses a channel, or attention heads, which go as a whole.
    """

    name: str
    group: Any
    channels: int
    parts: int
    heads: bool

    @property
    def pieces(self) -> int:
        """How many pieces there are to remove: heads, or channels of a norm group."""
        return self.parts if self.heads else self.channels // self.parts


class Anatomy:
    """The prunable layers of a network, and its cost with some of their channels removed.

    Left alone are the output (its channels are the image's) and the time embedding (its cost is negligible, and
    every block reads it).
    """

    def __init__(self, net: UNet2DModel) -> None:
        self.net = net
        self.layers = list(prunable_layers(net))
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


def prunable_layers(net: UNet2DModel) -> Iterator[Layer]:
    """Every prunable layer once: convolutions that are added up count as one."""
    import torch_pruning as tp

    names = {module: name for name, module in net.named_modules()}
    graph = dependency_graph(net)
    for group in graph.get_all_groups(ignored_layers=[net.conv_out], root_module_types=[nn.Conv2d]):
        root = group[0].dep.target.module
        yield Layer(names[root], group, root.out_channels, net.config["norm_num_groups"], heads=False)
    for attention, width in attentions(net):
        size = attention.to_q.out_features
        group = graph.get_pruning_group(attention.to_q, tp.prune_linear_out_channels, idxs=list(range(size)))
        yield Layer(names[attention.to_q], group, size, size // width, heads=True)


def positions_of(net: UNet2DModel) -> dict[Weighted, int]:
    """How often each convolution and linear layer is applied to one image: at every pixel, or once."""
    found: dict[Weighted, int] = {}

    def count(module: Weighted, _: Any, output: Tensor) -> None:
        found[module] = found.get(module, 0) + output.numel() // module.weight.shape[0]

    hooks = [one.register_forward_hook(count) for one in net.modules() if isinstance(one, Weighted)]
    with torch.no_grad():
        net(*example_inputs(net))
    for hook in hooks:
        hook.remove()
    return found


def shares(layers: list[Layer], modules: list[Weighted]) -> np.ndarray:
    """Outputs and inputs that each module loses with a channel of each layer, [2, modules, layers]."""
    import torch_pruning as tp

    row = {module: i for i, module in enumerate(modules)}
    table = np.zeros((2, len(modules), len(layers)), dtype=np.int64)
    for column, layer in enumerate(layers):
        for dependency, channels in layer.group:
            module = dependency.target.module
            if module in row:
                inputs = dependency.handler not in (tp.prune_conv_out_channels, tp.prune_linear_out_channels)
                table[int(inputs), row[module], column] += len(channels) // layer.channels
    return table
