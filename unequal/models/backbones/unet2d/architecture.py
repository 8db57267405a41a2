"""The UNet2DModel of diffusers, built from settings."""

from unequal.errors import UserError
from unequal.models.backbones.unet2d.network import UNet2DModel
from unequal.settings.network import UNet2D


def build_unet(network: UNet2D, image_size: int, input_channels: int, output_channels: int) -> UNet2DModel:
    """A network with fresh weights.

    Args:
        network: the architecture, and how many classes are embedded.
        image_size: height and width of the images.
        input_channels, output_channels: of the first and the last layer.

    Raises:
        UserError: images of that size do not go through it.
    """
    try:
        attends = network.attends(image_size)
    except ValueError as error:
        raise UserError(str(error)) from None
    return UNet2DModel(
        sample_size=image_size,
        in_channels=input_channels,
        out_channels=output_channels,
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
        num_class_embeds=network.condition.embedded_classes,
        dropout=network.dropout,
    )
