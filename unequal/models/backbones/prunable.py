"""What the library asks of a kind of network so that it can be pruned, and the graph of what hangs together.

It stands beside the backbone and not within it: what never prunes depends on none of it.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import nn

from unequal.models.backbones.registry import backbone_of


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
    """How networks of one kind are pruned.

    Attributes:
        kind: that of their backbone.
    """

    kind: str

    @abstractmethod
    def layers(self, net: Any) -> Iterator[PrunableLayer]:
        """Every layer of which channels may go, once."""

    @abstractmethod
    def mend(self, net: Any) -> None:
        """Bring what a pruned network knows of its own sizes in line with its layers."""


class SelfPruning(PrunableKind):
    """A kind that removes by itself what torch-pruning's graph cannot follow."""

    @abstractmethod
    def remove(self, net: Any, removals: Sequence[tuple[str, Sequence[int]]]) -> None:
        """Remove channels of `layers`, by layer, in place. Raises UserError where they are not there."""


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
