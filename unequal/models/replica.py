"""Networks that differ in their width and their first random weights, and in nothing else."""

import torch
from diffusers.models.unets.unet_2d import UNet2DModel

from unequal.models.network import build_network
from unequal.randomness import Stream, torch_seed
from unequal.settings.consistency import with_width
from unequal.settings.network import Network


def untrained(network: Network, width: str, seed: int, image_size: int, channels: int) -> UNet2DModel:
    """A replica as its training begins.

    Args:
        network: the architecture, but for its channels.
        width: these, written as in `16-32`.
        seed: training seed; the same one gives the same weights.
        image_size, channels: of the images.

    Raises:
        UserError: no network can have that width.
    """
    torch.manual_seed(torch_seed(seed, Stream.INITIAL_WEIGHTS))
    return build_network(with_width(network, width), image_size, channels)
