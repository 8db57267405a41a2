"""Networks without captions: UNet2DModel, and DiT's transformer of latents (2212.09748)."""

from collections.abc import Mapping
from typing import cast

import torch
from diffusers.models.transformers.dit_transformer_2d import DiTTransformer2DModel
from diffusers.models.unets.unet_2d import UNet2DModel
from torch import Tensor, nn

from unequal.models.backbones.unet2d.backbone import restore_heads
from unequal.profiler.family import LABEL, Family


class UNet2D(Family):
    """Pipelines such as DDPMPipeline and LDMPipeline."""

    part, kind = "unet", UNet2DModel

    def read(self) -> None:
        self.multiple = int(2 ** (len(self.config["block_out_channels"]) - 1))
        self.classes = self.config.get("num_class_embeds")
        if self.config.get("time_embedding_type") == "fourier":
            raise self.refusal("takes noise levels; allowed: networks that take timesteps")
        if self.config.get("class_embed_type") is not None:
            raise self.refusal(f"takes classes as '{self.config['class_embed_type']}'; allowed: as labels, or none")

    def network(self, device: torch.device, dtype: torch.dtype) -> nn.Module:
        """The network with its number of heads, which diffusers does not read from its configuration."""
        return restore_heads(cast(UNet2DModel, super().network(device, dtype)))

    def predict(self, net: nn.Module, x_t: Tensor, timestep: Tensor, conditions: Mapping[str, Tensor]) -> Tensor:
        return net(x_t, timestep, class_labels=conditions.get(LABEL)).sample


class DiT(Family):
    """DiTPipeline."""

    part, kind = "transformer", DiTTransformer2DModel

    def read(self) -> None:
        self.classes = self.null_class = int(self.config["num_embeds_ada_norm"])

    def predict(self, net: nn.Module, x_t: Tensor, timestep: Tensor, conditions: Mapping[str, Tensor]) -> Tensor:
        return net(x_t, timestep=timestep, class_labels=conditions[LABEL]).sample
