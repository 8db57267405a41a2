"""How large the network of any settings is; a kind that can count it without its libraries has a line in `COUNTED`."""

from collections.abc import Callable
from typing import Any

from unequal.models.backbones.dit.size import size_of as size_of_dit
from unequal.models.backbones.registry import backbone_named
from unequal.models.backbones.size import Size, traced_size
from unequal.models.backbones.unet2d.size import size_of as size_of_unet2d
from unequal.models.spec import ModelSpec
from unequal.settings.network import Network

#: Kind → (settings, size of the images, channels in, channels out) → size, of kinds that need build nothing for it.
COUNTED: dict[str, Callable[[Any, int, int, int], Size]] = {"unet2d": size_of_unet2d, "dit": size_of_dit}


def size_of(network: Network, spec: ModelSpec) -> Size:
    """How large the network of these settings is. Raises UserError where its kind is unknown."""
    if (count := COUNTED.get(network.kind)) is None:
        return traced_size(backbone_named(network.kind), network, spec)
    return count(network, spec.space.size, spec.input_channels, spec.output_channels)
