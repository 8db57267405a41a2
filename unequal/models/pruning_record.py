"""Structured pruning as a record: which output channels of which layers are gone.

The record and the unpruned architecture rebuild the pruned network exactly. torch-pruning's
dependency graph finds everything that shrinks along with a layer: norms, residual sums, skip
concatenations, the inputs of the layers behind it.
"""

from collections.abc import Sequence

from torch import nn

from unequal.errors import UserError
from unequal.models.backbones.prunable import dependency_graph
from unequal.models.backbones.registry import backbone_of

#: (name of a layer, its output channels to remove, by their number in the unpruned network)
Removal = tuple[str, Sequence[int]]


def replay(net: nn.Module, removals: Sequence[Removal]) -> None:
    """Remove channels from an unpruned network, in place. Raises UserError where they are not there."""
    import torch_pruning as tp

    backbone = backbone_of(net)
    graph = dependency_graph(net, backbone.example_inputs(net))
    modules = dict(net.named_modules())
    for name, channels in removals:
        layer = modules.get(name)
        if not isinstance(layer, nn.Conv2d | nn.Linear):
            raise UserError(f"pruning record: '{name}' is no layer of this network; it belongs to another base")
        prune = tp.prune_conv_out_channels if isinstance(layer, nn.Conv2d) else tp.prune_linear_out_channels
        group = graph.get_pruning_group(layer, prune, idxs=list(channels))
        if not graph.check_pruning_group(group):
            raise UserError(f"pruning record: removing {len(channels)} channels empties '{name}'")
        group.prune()
    backbone.mend(net)


def reinitialise(net: nn.Module) -> None:
    """Draw all weights anew from PyTorch's global generator, as layers of these (pruned) sizes begin."""
    for module in net.modules():
        if isinstance(module, nn.Conv2d | nn.Linear | nn.GroupNorm | nn.Embedding):
            module.reset_parameters()
