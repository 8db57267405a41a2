"""Size of a network: its parameters, and the values that one image takes on its way through it.

The built-in kinds are counted from the settings alone. The values that autograd stores of one image follow from how
diffusers computes a residual block and an attention; the products of attention are never stored (PyTorch's fused
attention). Networks of other kinds are built without memory and traced.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from unequal.models.backbones.backbone import Backbone, backbone_named
from unequal.models.spec import ModelSpec
from unequal.settings.network import DiT, Network, UNet2D

#: As in `unequal.models.backbones.dit.network`, which takes long to import.
FREQUENCIES, MLP_RATIO, MODULATIONS = 256, 4, 6
#: Kept of a token in a block, times the width: inputs of both norms, what these answer and what is made of it by
#: scale and shift (6); queries, keys, values and answer of the attention (4); what gates scale (2); and
#: what goes into the MLP's activation and comes out of it.
KEPT = 12 + 2 * MLP_RATIO
#: In hand at once in an MLP: the tokens, input, hidden layer before and behind its activation.
IN_HAND = 2 + 2 * MLP_RATIO
#: The time embedding is so many times as wide as the first level.
EMBEDDING = 4


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


def size_of_dit(network: DiT, image_size: int, inputs: int, outputs: int) -> Size:
    """The size of the network that these settings make. Raises ValueError where they make none."""
    network.check_size(image_size)
    width, pixels = network.width, network.patch**2
    tokens = (image_size // network.patch) ** 2
    told = linear(FREQUENCIES, width) + linear(width, width) + (network.condition.embedded_classes or 0) * width
    block = (
        linear(width, MODULATIONS * width)
        + linear(width, 3 * width)
        + linear(width, width)
        + linear(width, MLP_RATIO * width)
        + linear(MLP_RATIO * width, width)
    )
    ends = linear(pixels * inputs, width) + linear(width, 2 * width) + linear(width, pixels * outputs)
    # The last layer keeps three times the tokens, the first one its image.
    kept = tokens * (width * (KEPT * network.depth + 3) + pixels * inputs)
    return Size(told + network.depth * block + ends, kept, IN_HAND * width * tokens)


@dataclass(frozen=True)
class Part:
    """A block: its parameters, and values of one image that it keeps, has in hand at once, and hands to the way up."""

    parameters: int
    kept: int
    in_hand: int
    skipped: int = 0


def size_of_unet2d(network: UNet2D, image_size: int, inputs: int, outputs: int) -> Size:
    """The size of the network that `build_unet` makes of the same arguments. Raises ValueError where it makes none."""
    parts = list(parts_of(network, image_size, inputs, outputs))
    return Size(
        sum(part.parameters for part in parts),
        sum(part.kept for part in parts),
        sum(part.skipped for part in parts) + max(part.in_hand for part in parts),
    )


def parts_of(network: UNet2D, image_size: int, inputs: int, outputs: int) -> Iterator[Part]:
    """Every block in the order in which an image passes it."""
    channels, attends = network.block_out_channels, network.attends(image_size)
    pixels = [(image_size // 2**level) ** 2 for level in range(len(channels))]
    first, last = channels[0], len(channels) - 1
    width = EMBEDDING * first
    yield Part(linear(first, width) + linear(width, width) + (network.condition.embedded_classes or 0) * width, 0, 0)
    yield convolution(inputs, first, pixels[0], skipped=True)
    skips, here = [first], first
    for level, after in enumerate(channels):
        for _ in range(network.layers_per_block):
            yield from layer(network, here, after, pixels[level], attends[level], skipped=True)
            skips.append(here := after)
        if level < last:
            yield convolution(here, here, pixels[level + 1], skipped=True)
            skips.append(here)
    yield from layer(network, here, here, pixels[last], network.middle_attention)
    yield from layer(network, here, here, pixels[last], False)
    for level, after in reversed(list(enumerate(channels))):
        for _ in range(network.layers_per_block + 1):
            yield from layer(network, here + skips.pop(), after, pixels[level], attends[level])
            here = after
        if level:
            yield convolution(here, here, pixels[level - 1])
    yield Part(2 * first, 2 * first * pixels[0], 0)
    yield convolution(first, outputs, pixels[0])


def layer(
    network: UNet2D, inputs: int, outputs: int, pixels: int, attends: bool, skipped: bool = False
) -> Iterator[Part]:
    """A residual block and the attention behind it, if there is one."""
    yield residual(network, inputs, outputs, pixels, skipped and not attends)
    if attends:
        # Kept: input, its norm, queries, keys, values, what they answer, and that once more laid out anew.
        weights = 2 * outputs + 4 * linear(outputs, outputs)
        yield Part(weights, 7 * outputs * pixels, 6 * outputs * pixels, skipped * outputs * pixels)


def residual(network: UNet2D, inputs: int, outputs: int, pixels: int, skipped: bool) -> Part:
    """norm, SiLU, convolution, embedding, norm, SiLU, dropout, convolution, and the input beside them."""
    shifts = 2 if network.scale_shift else 1
    parameters = (
        2 * (inputs + outputs)
        + linear(9 * inputs, outputs)
        + linear(9 * outputs, outputs)
        + linear(EMBEDDING * network.block_out_channels[0], shifts * outputs)
        + (linear(inputs, outputs) if inputs != outputs else 0)
    )
    # Each layer keeps its input; dropout its mask besides.
    kept = 3 * inputs + (2 + shifts) * outputs + (2 * outputs if network.dropout else 0)
    # In hand: input, norm and SiLU or convolution, and what the latter lays out anew.
    return Part(parameters, kept * pixels, 4 * (inputs + outputs) * pixels, skipped * outputs * pixels)


def convolution(inputs: int, outputs: int, pixels: int, skipped: bool = False) -> Part:
    """A convolution of 3 × 3 that answers so many pixels, and keeps its input."""
    return Part(linear(9 * inputs, outputs), inputs * pixels, (inputs + outputs) * pixels, skipped * outputs * pixels)


def linear(inputs: int, outputs: int) -> int:
    """Weights and biases of a layer."""
    return inputs * outputs + outputs


#: Kind → (settings, size of the images, channels in, channels out) → size, of kinds that need build nothing for it.
COUNTED: dict[str, Callable[[Any, int, int, int], Size]] = {"unet2d": size_of_unet2d, "dit": size_of_dit}


def size_of(network: Network, spec: ModelSpec) -> Size:
    """How large the network of these settings is. Raises UserError where its kind is unknown."""
    if (count := COUNTED.get(network.kind)) is None:
        return traced_size(backbone_named(network.kind), network, spec)
    return count(network, spec.space.size, spec.input_channels, spec.output_channels)
