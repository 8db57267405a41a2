"""diffusers' UNet2DModel as a backbone: imported by itself, built from settings, with heads of any number.

diffusers gives every attention layer heads of one width, `attention_head_dim`. OpenAI's networks may have the same
number of heads at every level instead, each as wide as its level allows. The weights look the same either way: heads
only say how an attention layer divides its channels, so a network can be given others after it was built.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unequal.errors import UserError
from unequal.models.backbones.backbone import Backbone
from unequal.models.conditions import condition_of
from unequal.models.lazy_imports import defer, without
from unequal.models.spec import ModelSpec
from unequal.settings.network import UNet2D

# Layers of other networks can do without the compiler, which is imported where something is compiled or optimised.
with without("torch._dynamo"):
    defer("diffusers.models.transformers")
    defer("diffusers.models.unets")
    with without("transformers"):  # settings of quantized pipelines can do without it
        from diffusers.models.attention_processor import Attention
        from diffusers.models.unets.unet_2d import UNet2DModel as UNet2DModel

#: In a network's config, next to diffusers' own settings: heads of every attention layer, whatever its width.
HEADS = "attention_heads"


def build_unet(network: UNet2D, image_size: int, input_channels: int, output_channels: int) -> UNet2DModel:
    """A network with fresh weights.

    Raises:
        UserError: images of that size do not go through it.
    """
    try:
        network.check_size(image_size)
    except ValueError as error:
        raise UserError(str(error)) from None
    sizes = [image_size // 2**level for level in range(len(network.block_out_channels))]
    attends = [size in network.attention_resolutions for size in sizes]
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
        num_class_embeds=condition_of(network.condition).embedded_classes,
        dropout=network.dropout,
    )


def give_heads(net: UNet2DModel, heads: int) -> None:
    """Give every attention layer of an unpruned network so many heads. Raises UserError where they do not divide it."""
    for attention, _ in attentions(net):
        if not isinstance(heads, int) or heads < 1 or attention.inner_dim % heads:
            raise UserError(f"{HEADS}: {heads}; allowed: what divides {attention.inner_dim}, the channels of a level")
        attention.heads = attention.sliceable_head_dim = heads
        attention.scale = (attention.inner_dim / heads) ** -0.5
    net.register_to_config(**{HEADS: heads})


def restore_heads(net: UNet2DModel) -> UNet2DModel:
    """Give a network the heads in its config, which diffusers ignores."""
    if (heads := net.config.get(HEADS)) is not None:
        give_heads(net, heads)
    return net


def attentions(net: UNet2DModel) -> Iterator[tuple[Attention, int]]:
    """Every attention layer and the width of its heads, which pruning does not change."""
    for module in net.modules():
        if isinstance(module, Attention):
            # scale = width^-½ is set once, from the unpruned width.
            yield module, round(module.scale**-2)


class UNet2DBackbone(Backbone):
    """A U-Net with attention, by diffusers."""

    kind = "unet2d"
    module = UNet2DModel

    def build(self, network: UNet2D, spec: ModelSpec) -> UNet2DModel:
        return build_unet(network, spec.space.size, spec.input_channels, spec.output_channels)

    def load_pretrained(self, network: UNet2D, spec: ModelSpec) -> UNet2DModel:
        """Load a folder of diffusers, or a file of OpenAI."""
        from unequal.models.backbones.unet2d.exchange import load_pretrained

        return load_pretrained(network, spec)

    def check_pretrained(self, network: UNet2D, spec: ModelSpec) -> None:
        """Check the scheduler next to it, or OpenAI's flags."""
        from unequal.models.backbones.unet2d.exchange import check_pretrained

        check_pretrained(network, spec)

    def config(self, net: UNet2DModel) -> dict[str, Any]:
        """Config as diffusers writes it; diffusers reads the folder by itself, except for heads of several widths."""
        return json.loads(net.to_json_string())

    def from_config(self, config: dict[str, Any]) -> UNet2DModel:
        # diffusers would warn of a setting that is not its own.
        net = UNet2DModel.from_config({key: value for key, value in config.items() if key != HEADS})
        if HEADS in config:
            give_heads(net, config[HEADS])
        return net

    def example_inputs(self, net: UNet2DModel) -> tuple[Tensor, ...]:
        device, size = next(net.parameters()).device, net.config["sample_size"]
        height, width = (size, size) if isinstance(size, int) else size
        image = torch.zeros(1, net.config["in_channels"], height, width, device=device)
        index = torch.zeros(1, dtype=torch.long, device=device)
        return (image, index) if net.class_embedding is None else (image, index, index)

    def export(self, net: UNet2DModel, spec: ModelSpec, target: Path, autoencoder: Path | None = None) -> None:
        """Write a DDIMPipeline, a DDPMPipeline for a learned variance, or a flow's network next to its scheduler."""
        from unequal.models.backbones.unet2d.exchange import export

        export(net, spec, target)
