"""The UNet2DModel of diffusers, built from settings or taken from a folder or the Hub."""

from diffusers.models.unets.unet_2d import UNet2DModel

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
        resnet_time_scale_shift="scale_shift" if network.scale_shift else "default",
        dropout=network.dropout,
    )


def load_pretrained(network: Network, image_size: int, channels: int) -> UNet2DModel:
    """The trained network from a diffusers folder (of a model or a pipeline) or a Hub id that the settings name.

    Raises:
        UserError: nothing that loads is there, or it is made for other images.
    """
    net, source = None, str(network.pretrained)
    for subfolder in (None, "unet"):
        try:
            net = UNet2DModel.from_pretrained(source, subfolder=subfolder, use_safetensors=True)
            break
        except (OSError, ValueError) as error:
            reason = str(error).splitlines()[0]
    if net is None:
        raise UserError(f"network.pretrained: '{source}' holds no UNet2DModel: {reason}")
    has = (net.config["sample_size"], net.config["in_channels"], net.config["out_channels"])
    needed = (image_size, network.input_channels(channels), network.output_channels(channels))
    if has != needed:
        learned = "with" if network.learned_variance else "without"
        raise UserError(
            f"network.pretrained: '{source}' is for images of size {has[0]} with {has[1]} channels in and "
            f"{has[2]} out; the data have size {image_size} and {channels} channels, which is {needed[1]} in for "
            f"{network.task.kind} and {needed[2]} out {learned} learned variance"
        )
    return net
