"""Pruned networks: what the library asks of a kind of network to prune it, and rebuilding one from its record.

A program that only meets unpruned models depends on none of this. A further prunable kind is a class in its backbone's
package and a function and an entry of `BUILT_IN`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from unequal.errors import UserError
from unequal.models.backbones.backbone import backbone_of
from unequal.models.folder import ModelRecord, Removal, load_architecture, load_removals, with_weights


class Block(NamedTuple):
    """A part of a network that has a pruning ratio of its own, and where it stands among the others."""

    place: int
    name: str


@dataclass(frozen=True)
class PrunableLayer:
    """Channels that can be removed, with all that shrinks along with them.

    `name` is the layer whose outputs they are, the first of several that are added up; `block` is what it belongs to;
    `group` is torch-pruning's list of everything coupled to it; `parts` says into how many equal parts a removal must
    not cut: norm groups of which each loses a channel, or attention heads, which go as a whole.

    Of its units so many have to be `kept`. Where several layers share a group, `rows` are those of the group's channels
    that are this layer's; `lost` are outputs and inputs that go with a channel from modules that are not in the group.
    """

    name: str
    block: Block
    group: Any
    channels: int
    parts: int
    heads: bool
    kept: int = 1
    rows: slice = field(default_factory=lambda: slice(None))
    lost: tuple[tuple[nn.Module, int, int], ...] = ()


class PrunableKind(ABC):
    """Pruning of networks of one kind.

    Attributes:
        description: of the network, its blocks and units, for a language model that decides what goes.
    """

    description: str = (
        "It is a network whose channels can be removed. Each block below has layers; a unit holds channels of a layer "
        "that belong together."
    )

    @abstractmethod
    def layers(self, net: Any) -> Iterator[PrunableLayer]:
        """Every layer of which channels may go, once."""

    def remove(self, net: Any, removals: Sequence[Removal]) -> None:
        """Remove channels of `layers` from an unpruned network, in place. Raises UserError where they are not there.

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


def dependency_graph(net: nn.Module):  # type: ignore[no-untyped-def]  # torch-pruning is untyped
    """torch-pruning's graph of a network, traced with one image."""
    import torch_pruning as tp

    frozen = [parameter for parameter in net.parameters() if not parameter.requires_grad]
    # The trace follows gradients: a layer without any would be missing from the graph.
    net.requires_grad_(True)
    try:
        with torch.enable_grad():
            return tp.DependencyGraph().build_dependency(
                net,
                example_inputs=backbone_of(net).example_inputs(net),
                # By itself torch-pruning tries two ways of asking, and takes a signal to stop for a failure of one.
                forward_fn=lambda model, inputs: model(*inputs),
                output_transform=lambda output: output.sample,
            )
    finally:
        for parameter in frozen:
            parameter.requires_grad_(False)


def unet2d() -> PrunableKind:
    """diffusers' U-Net."""
    from unequal.models.backbones.unet2d.pruning import PrunableUNet2D

    return PrunableUNet2D()


def dit() -> PrunableKind:
    """DiT's transformer."""
    from unequal.models.backbones.dit.pruning import PrunableDiT

    return PrunableDiT()


#: The library's own, by kind; each is imported when it is asked for, as the backbones are.
BUILT_IN: dict[str, Callable[[], PrunableKind]] = {"unet2d": unet2d, "dit": dit}


def prunable_kind_of(net: nn.Module) -> PrunableKind:
    """Pruning for the kind of a network. Raises UserError where it cannot be pruned."""
    kind = backbone_of(net).kind
    if kind not in BUILT_IN:
        raise UserError(f"pruning: networks of kind {kind} cannot be pruned; allowed: {', '.join(BUILT_IN)}")
    return BUILT_IN[kind]()


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
    prunable_kind_of(net).remove(net, removals)
