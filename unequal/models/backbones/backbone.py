"""Kinds of networks: what the library asks of one, so that it can be trained, measured, sampled and stored.

A network is a `torch.nn.Module` that answers `net(sample, timestep, …)` with an object whose `sample` is the answer
(see `unequal.models.conditions`). All else that depends on its inside stands in its backbone, except how it is pruned
(`unequal.models.pruned`). A further kind is a package next to this module, and a function and an entry of `BUILT_IN`.

"FLOPs" in paper 3 are multiply–accumulates of one forward pass of one image, without the two products of attention;
`count_cost` gives that figure and the one with attention.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from unequal.errors import UserError
from unequal.models.spec import ModelSpec
from unequal.settings.network import Network

#: A training step is counted as three forward passes: one forward, two for the backward pass.
FORWARDS_PER_STEP = 3
#: Most parameters of a network that is traced and counted on the CPU.
SMALL = 1_000_000
#: Parts of the names of operators that multiply for attention.
ATTENTION_PRODUCTS = ("scaled_dot_product", "bmm", "flash_attention")
#: Layers that multiply by weights.
Weighted = nn.Conv2d | nn.Linear


class Unexportable(Exception):
    """Says what diffusers has no pipeline for."""


class Backbone(ABC):
    """One kind of network.

    Attributes:
        kind: its name, in `network.kind` and in the record of a model.
        module: the class of its networks.
    """

    kind: str
    module: type[nn.Module]

    @abstractmethod
    def build(self, network: Any, spec: ModelSpec) -> nn.Module:
        """A network with fresh weights from PyTorch's global generator. Raises UserError where it cannot be built."""

    def load_pretrained(self, network: Any, spec: ModelSpec) -> nn.Module:
        """The trained network that the settings name. Raises UserError where it is not there, or for other images."""
        raise UserError(f"network.pretrained: '{network.pretrained}'; networks of kind {self.kind} are trained: null")

    def check_pretrained(self, network: Any, spec: ModelSpec) -> None:
        """Raise UserError where a trained network's source says that it was trained for something else."""
        return

    @abstractmethod
    def config(self, net: Any) -> dict[str, Any]:
        """The architecture as JSON can carry it; of a pruned network, that of before."""

    @abstractmethod
    def from_config(self, config: dict[str, Any]) -> nn.Module:
        """A network of that architecture, with any weights."""

    @abstractmethod
    def example_inputs(self, net: Any) -> tuple[Tensor, ...]:
        """Input of the network for one image, in the order of its arguments, on its device."""

    def export(self, net: Any, spec: ModelSpec, target: Path, autoencoder: Path | None = None) -> None:
        """Write a pipeline of diffusers. Raises Unexportable where diffusers has none for such a model.

        Args:
            net, spec: the model.
            target: a new folder.
            autoencoder: folder of that of a model of latents, where it is there.
        """
        raise Unexportable(f"a network of kind {self.kind}")


def unet2d() -> Backbone:
    """diffusers' U-Net."""
    from unequal.models.backbones.unet2d.backbone import UNet2DBackbone

    return UNet2DBackbone()


def dit() -> Backbone:
    """DiT's transformer."""
    from unequal.models.backbones.dit.backbone import DiTBackbone

    return DiTBackbone()


#: The library's own, by kind; each is imported when it is asked for, since it brings a large part of diffusers along.
BUILT_IN: dict[str, Callable[[], Backbone]] = {"unet2d": unet2d, "dit": dit}


def backbone_named(kind: str) -> Backbone:
    """The backbone of a kind. Raises UserError where there is none."""
    if kind not in BUILT_IN:
        raise UserError(f"network.kind: '{kind}' is unknown; allowed: {', '.join(BUILT_IN)}")
    return BUILT_IN[kind]()


def backbone_of(net: nn.Module) -> Backbone:
    """The backbone of a network. Raises UserError where it is of no kind that is known."""
    # A network of a built-in kind has most often been made by that kind, which is imported then.
    for kind in sorted(BUILT_IN, key=lambda name: f"{__package__}.{name}.backbone" not in sys.modules):
        if isinstance(net, (backbone := backbone_named(kind)).module):
            return backbone
    raise UserError(f"a network of class {type(net).__name__} is of no kind that is known: {', '.join(BUILT_IN)}")


def build_network(network: Network, spec: ModelSpec) -> nn.Module:
    """A network with fresh weights; see `Backbone.build`."""
    return backbone_named(network.kind).build(network, spec)


def build_outline(network: Network, spec: ModelSpec) -> nn.Module:
    """A network to trace and to count; a large one has shapes alone, without memory for weights.

    Passes on `meta` make PyTorch import its compiler, which takes longer than a pass of a small network on the CPU.
    """
    with torch.device("meta"):
        net = build_network(network, spec)
    return build_network(network, spec) if sum(weights.numel() for weights in net.parameters()) <= SMALL else net


def load_pretrained(network: Network, spec: ModelSpec) -> nn.Module:
    """The trained network that the settings name; see `Backbone.load_pretrained`."""
    return backbone_named(network.kind).load_pretrained(network, spec)


def take_over(network: Network, spec: ModelSpec) -> nn.Module:
    """Load it as a base of that spec. Raises UserError also where its source says that it was trained otherwise."""
    net = load_pretrained(network, spec)
    backbone_named(network.kind).check_pretrained(network, spec)
    return net


@dataclass(frozen=True)
class Cost:
    """Cost of a network: multiply–accumulates of one image, without and with attention, and parameters."""

    macs: int
    macs_with_attention: int
    parameters: int


def count_cost(net: nn.Module) -> Cost:
    """Count one forward pass of one image. Weights do not matter, and stay as they are.

    A network of the CPU is called itself if it is small: shapes alone, on `meta`, take Python longer.
    """
    from torch.utils.flop_counter import FlopCounterMode  # imports Triton

    parameters = sum(tensor.numel() for tensor in net.parameters())
    small = parameters <= SMALL and all(tensor.device.type == "cpu" for tensor in net.parameters())
    device = torch.device("cpu" if small else "meta")
    tensors = {name: tensor.to(device, copy=True) for name, tensor in (*net.named_parameters(), *net.named_buffers())}
    inputs = tuple(tensor.to(device) for tensor in backbone_of(net).example_inputs(net))
    with torch.no_grad(), torch.random.fork_rng(devices=[]), FlopCounterMode(display=False) as counter:
        functional_call(net, tensors, inputs)
    counts = counter.get_flop_counts()
    # PyTorch 2.11 runs some linear layers as a bmm.
    linear = {f"{type(net).__name__}.{name}" for name, module in net.named_modules() if isinstance(module, nn.Linear)}
    attention = attention_in(counts["Global"]) - sum(attention_in(counts[name]) for name in linear & counts.keys())
    total = sum(counts["Global"].values())
    # The counter counts a multiply and an add as two operations.
    return Cost((total - attention) // 2, total // 2, parameters)


def attention_in(counts: Mapping[Any, int]) -> int:
    """Operations of products that are attention's by their operator, of operator → operations."""
    return sum(count for operator, count in counts.items() if any(part in str(operator) for part in ATTENTION_PRODUCTS))


def positions_of(net: nn.Module) -> dict[Weighted, int]:
    """Number of applications of each convolution and linear layer to one image: at every pixel, or once."""
    positions: dict[Weighted, int] = {}

    def count(module: Weighted, _: Any, output: Tensor) -> None:
        positions[module] = positions.get(module, 0) + output.numel() // module.weight.shape[0]

    hooks = [module.register_forward_hook(count) for module in net.modules() if isinstance(module, Weighted)]
    with torch.no_grad():
        net(*backbone_of(net).example_inputs(net))
    for hook in hooks:
        hook.remove()
    return positions


def layer_macs(net: nn.Module) -> int:
    """Multiply–accumulates of convolutions and linear layers for one image: all but attention's two products."""
    return sum(positions * layer.weight.numel() for layer, positions in positions_of(net).items())


def training_flops(macs: int, images: int) -> int:
    """Multiply–accumulates of training on that many images: 3 × forward."""
    return FORWARDS_PER_STEP * macs * images


def images_affordable(flops: float, macs: int) -> int:
    """Number of training images that so many multiply–accumulates pay for, to the nearest."""
    return round(flops / (FORWARDS_PER_STEP * macs))
