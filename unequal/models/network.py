"""The UNet2DModel of diffusers, built from settings."""

import torch
from diffusers.models.unets.unet_2d import UNet2DModel
from torch import Tensor

from unequal.errors import UserError
from unequal.settings.network import Network


def build_network(network: Network, image_size: int, channels: int, heads: int = 1) -> UNet2DModel:
    """A network with fresh weights.

    Args:
        network: the architecture.
        image_size: height and width of the images.
        channels: of the images.
        heads: how many predictions of `channels` channels each the last layer gives; one alone may have a variance.
    """
    try:
        attends = network.attends(image_size)
    except ValueError as error:
        raise UserError(str(error)) from None
    return UNet2DModel(
        sample_size=image_size,
        in_channels=network.input_channels(channels),
        out_channels=network.output_channels(channels, heads),
        layers_per_block=network.layers_per_block,
        block_out_channels=network.block_out_channels,
        down_block_types=tuple("AttnDownBlock2D" if attend else "DownBlock2D" for attend in attends),
        up_block_types=tuple("AttnUpBlock2D" if attend else "UpBlock2D" for attend in reversed(attends)),
        add_attention=network.middle_attention,
        attention_head_dim=network.attention_head_dim,
        norm_num_groups=network.norm_num_groups,
        # Else diffusers leaves out the middle attention's norm where the time embedding scales and shifts.
        attn_norm_num_groups=network.norm_num_groups,
        resnet_time_scale_shift="scale_shift" if network.scale_shift else "default",
        num_class_embeds=network.classes,
        dropout=network.dropout,
    )


def example_inputs(net: UNet2DModel) -> tuple[Tensor, ...]:
    """One image, its timestep and, for a class-conditional network, its label: what a network is asked with."""
    device, size = next(net.parameters()).device, net.config["sample_size"]
    height, width = (size, size) if isinstance(size, int) else size
    image = torch.zeros(1, net.config["in_channels"], height, width, device=device)
    index = torch.zeros(1, dtype=torch.long, device=device)
    return (image, index) if net.class_embedding is None else (image, index, index)
