"""How large a network is: its parameters, and what one image takes on its way through it."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from unequal.models.backbones.backbone import Backbone
from unequal.models.spec import ModelSpec
from unequal.settings.network import Network


@dataclass(frozen=True)
class Size:
    """Of a network: its parameters, and values that one image takes on its way.

    Attributes:
        parameters: of all layers.
        kept: values that are kept for the backward pass.
        passing: values that are there at once where none is kept: all skip connections and the widest block.
    """

    parameters: int
    kept: int
    passing: int


def traced_size(backbone: Backbone, network: Network, spec: ModelSpec) -> Size:
    """Of a network of any kind, which is built without memory, on the device `meta`, and asked once.

    What is passing is not told apart from what is kept: an upper bound.
    """
    with torch.device("meta"):
        net = backbone.build(network, spec)
        kept = kept_values(net, backbone.example_inputs(net))
    return Size(sum(one.numel() for one in net.parameters()), kept, kept)


def kept_values(net: nn.Module, inputs: tuple[Tensor, ...]) -> int:
    """How many values autograd keeps of these inputs; parameters, which are there anyway, are not counted."""
    kept = 0

    def keep(saved: Tensor) -> Tensor:
        nonlocal kept
        kept += 0 if saved.is_leaf and saved.requires_grad else saved.numel()
        return saved

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda saved: saved):
        net(*inputs)
    return kept
