"""What of a network can be pruned, what hangs together with it, and what the network then costs.

The cost is a formula, so that thousands of choices can be compared without making one: a convolution
takes positions × kernel area × inputs × outputs multiply–accumulates, a linear layer the same with an
area of 1, and each removed channel takes a known number of inputs and outputs from each of them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unequal.models.backbones.prunable import PrunableLayer
from unequal.models.backbones.prunable_kinds import prunable_kind_of
from unequal.models.backbones.registry import backbone_of

Weighted = nn.Conv2d | nn.Linear


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


def positions_of(net: nn.Module) -> dict[Weighted, int]:
    """How often each convolution and linear layer is applied to one image: at every pixel, or once."""
    found: dict[Weighted, int] = {}

    def count(module: Weighted, _: Any, output: Tensor) -> None:
        found[module] = found.get(module, 0) + output.numel() // module.weight.shape[0]

    hooks = [one.register_forward_hook(count) for one in net.modules() if isinstance(one, Weighted)]
    with torch.no_grad():
        net(*backbone_of(net).example_inputs(net))
    for hook in hooks:
        hook.remove()
    return found


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
