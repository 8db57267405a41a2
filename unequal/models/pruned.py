"""Pruned networks, rebuilt from the unpruned architecture and the record of what pruning has taken away.

It is a module of its own so that a program which only ever meets unpruned models depends on no pruning.
"""

from collections.abc import Sequence
from pathlib import Path

from torch import nn

from unequal.errors import UserError
from unequal.models.backbones.prunable import SelfPruning, dependency_graph
from unequal.models.backbones.prunable_kinds import prunable_kind_of
from unequal.models.folder import ModelRecord, Removal, load_architecture, load_removals, with_weights


def load_any_model(folder: Path) -> tuple[nn.Module, ModelRecord]:
    """Load a model folder, pruned or not, onto the CPU.

    Raises:
        UserError: a file is missing, cut short or not the one that was saved.
    """
    net, record = load_architecture(folder)
    if (removals := load_removals(folder)) is not None:
        take_away(net, removals)
    return with_weights(net, folder), record


def take_away(net: nn.Module, removals: Sequence[Removal]) -> None:
    """Remove channels from an unpruned network, in place. Raises UserError where they are not there."""
    kind = prunable_kind_of(net)
    (kind.remove if isinstance(kind, SelfPruning) else replay)(net, removals)


def replay(net: nn.Module, removals: Sequence[Removal]) -> None:
    """Remove channels from an unpruned network, in place. Raises UserError where they are not there.

    torch-pruning's dependency graph finds everything that shrinks along with a layer: norms, residual sums, skip
    concatenations, the inputs of the layers behind it.
    """
    import torch_pruning as tp

    graph = dependency_graph(net)
    modules = dict(net.named_modules())
    for name, channels in removals:
        layer = modules.get(name)
        if not isinstance(layer, nn.Conv2d | nn.Linear):
            raise UserError(f"pruning record: '{name}' is no layer of this network; it belongs to another base")
        if (last := max(channels, default=0)) >= len(layer.weight):
            raise UserError(f"pruning record: '{name}' has no channel {last}; it belongs to another base")
        prune = tp.prune_conv_out_channels if isinstance(layer, nn.Conv2d) else tp.prune_linear_out_channels
        group = graph.get_pruning_group(layer, prune, idxs=list(channels))
        if not graph.check_pruning_group(group):
            raise UserError(f"pruning record: removing {len(channels)} channels empties '{name}'")
        group.prune()
    prunable_kind_of(net).mend(net)
