"""Which kinds of networks there are; a further one is a package beside this module and a line in `built_in`."""

from torch import nn

from unequal.errors import UserError
from unequal.models.backbones.backbone import Backbone
from unequal.models.spec import ModelSpec
from unequal.settings.network import Network

#: Those from outside the library.
_registered: dict[str, Backbone] = {}


def built_in() -> dict[str, Backbone]:
    """The library's own, by kind."""
    # Imported when they are asked for: each brings a large part of diffusers along.
    from unequal.models.backbones.dit.backbone import DiTBackbone
    from unequal.models.backbones.unet2d.backbone import UNet2DBackbone

    return {backbone.kind: backbone for backbone in (UNet2DBackbone(), DiTBackbone())}


def register(backbone: Backbone) -> None:
    """Make a further kind of network known to this process."""
    _registered[backbone.kind] = backbone


def backbones() -> dict[str, Backbone]:
    """All kinds."""
    return built_in() | _registered


def backbone_named(kind: str) -> Backbone:
    """The backbone of a kind. Raises UserError where there is none."""
    known = backbones()
    if kind not in known:
        raise UserError(f"network.kind: '{kind}' is unknown; allowed: {', '.join(known)}")
    return known[kind]


def backbone_of(net: nn.Module) -> Backbone:
    """The backbone of a network. Raises UserError where it is of no kind that is known."""
    for backbone in backbones().values():
        if isinstance(net, backbone.module):
            return backbone
    raise UserError(f"a network of class {type(net).__name__} is of no kind that is known: {', '.join(backbones())}")


def build_network(network: Network, spec: ModelSpec) -> nn.Module:
    """A network with fresh weights; see `Backbone.build`."""
    return backbone_named(network.kind).build(network, spec)


def load_pretrained(network: Network, spec: ModelSpec) -> nn.Module:
    """The trained network that the settings name; see `Backbone.load_pretrained`."""
    return backbone_named(network.kind).load_pretrained(network, spec)


def take_over(network: Network, spec: ModelSpec) -> nn.Module:
    """The same as a base of that spec. Raises UserError also where its source says that it was trained otherwise."""
    net = load_pretrained(network, spec)
    backbone_named(network.kind).check_pretrained(network, spec)
    return net
