"""How large the U-Net of settings is, counted from the settings alone: nothing is built.

What autograd keeps of one image follows from how diffusers computes a residual block and an attention; the products of
attention themselves are never stored (PyTorch's fused attention).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from unequal.models.backbones.size import Size
from unequal.settings.network import UNet2D

#: The time embedding is so many times as wide as the first level.
EMBEDDING = 4


@dataclass(frozen=True)
class Part:
    """A block: its parameters, and values of one image that it keeps, has in hand at once, and hands to the way up."""

    parameters: int
    kept: int
    in_hand: int
    skipped: int = 0


def size_of(network: UNet2D, image_size: int, inputs: int, outputs: int) -> Size:
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
