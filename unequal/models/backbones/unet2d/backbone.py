"""UNet2DModel as a backbone."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unequal.models.backbones.backbone import Backbone
from unequal.models.backbones.unet2d.architecture import build_unet
from unequal.models.backbones.unet2d.heads import HEADS, give_heads
from unequal.models.backbones.unet2d.network import UNet2DModel
from unequal.models.backbones.unet2d.pretrained import check_pretrained, load_pretrained
from unequal.models.spec import ModelSpec
from unequal.settings.network import UNet2D


class UNet2DBackbone(Backbone):
    """A U-Net with attention, by diffusers."""

    kind = "unet2d"
    module = UNet2DModel

    def build(self, network: UNet2D, spec: ModelSpec) -> UNet2DModel:
        return build_unet(network, spec.space.size, spec.input_channels, spec.output_channels)

    def load_pretrained(self, network: UNet2D, spec: ModelSpec) -> UNet2DModel:
        """From a folder of diffusers' or a file of OpenAI's."""
        return load_pretrained(network, spec)

    def check_pretrained(self, network: UNet2D, spec: ModelSpec) -> None:
        """By the scheduler beside it, or by OpenAI's flags."""
        check_pretrained(network, spec)

    def config(self, net: UNet2DModel) -> dict[str, Any]:
        """As diffusers writes it, which then reads the folder by itself, but for heads of several widths."""
        return json.loads(net.to_json_string())

    def from_config(self, config: dict[str, Any]) -> UNet2DModel:
        # diffusers would warn of a setting that is not its own.
        net = UNet2DModel.from_config({key: value for key, value in config.items() if key != HEADS})
        if HEADS in config:
            give_heads(net, config[HEADS])
        return net

    def example_inputs(self, net: UNet2DModel) -> tuple[Tensor, ...]:
        """One image, its timestep and, for a class-conditional network, its label."""
        device, size = next(net.parameters()).device, net.config["sample_size"]
        height, width = (size, size) if isinstance(size, int) else size
        image = torch.zeros(1, net.config["in_channels"], height, width, device=device)
        index = torch.zeros(1, dtype=torch.long, device=device)
        return (image, index) if net.class_embedding is None else (image, index, index)

    def export(self, net: UNet2DModel, spec: ModelSpec, target: Path, autoencoder: Path | None = None) -> None:
        """As a DDIMPipeline, as a DDPMPipeline if it has learned a variance, or of a flow beside its scheduler."""
        # Imported here: pipelines take seconds to import, and nothing else needs them.
        from unequal.models.backbones.unet2d.pipeline import export

        export(net, spec, target)
