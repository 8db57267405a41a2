"""DiT's transformer as a backbone."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unequal.errors import UserError
from unequal.models.backbones.backbone import Backbone
from unequal.models.backbones.dit.network import DiffusionTransformer, DiTConfig
from unequal.models.spec import ModelSpec
from unequal.settings.network import DiT


class DiTBackbone(Backbone):
    """A transformer on patches, with or without labels."""

    kind = "dit"
    module = DiffusionTransformer

    def build(self, network: DiT, spec: ModelSpec) -> DiffusionTransformer:
        return DiffusionTransformer(config_for(network, spec))

    def load_pretrained(self, network: DiT, spec: ModelSpec) -> DiffusionTransformer:
        """Load a folder of diffusers, or a file of DiT or SiT."""
        from unequal.models.backbones.dit.exchange import load_pretrained

        return load_pretrained(network, spec, config_for(network, spec))

    def check_pretrained(self, network: DiT, spec: ModelSpec) -> None:
        """Check the scheduler next to it, or whose code trained it."""
        from unequal.models.backbones.dit.exchange import check_pretrained

        check_pretrained(network, spec)

    def config(self, net: DiffusionTransformer) -> dict[str, Any]:
        return net.config

    def from_config(self, config: dict[str, Any]) -> DiffusionTransformer:
        return DiffusionTransformer(DiTConfig(**config))

    def example_inputs(self, net: DiffusionTransformer) -> tuple[Tensor, ...]:
        chosen, device = net.architecture, net.pos_embed.device
        image = torch.zeros(1, chosen.inputs, chosen.size, chosen.size, device=device)
        index = torch.zeros(1, dtype=torch.long, device=device)
        return (image, index) if chosen.classes is None else (image, index, index)

    def export(self, net: DiffusionTransformer, spec: ModelSpec, target: Path, autoencoder: Path | None = None) -> None:
        """Write a DiTPipeline, or for a flow the transformer next to its scheduler."""
        from unequal.models.backbones.dit.exchange import export

        export(net, spec, target, autoencoder)


def config_for(network: DiT, spec: ModelSpec) -> DiTConfig:
    """The architecture that settings describe. Raises UserError where images of that size do not go through it."""
    try:
        network.check_size(spec.space.size)
    except ValueError as error:
        raise UserError(str(error)) from None
    return DiTConfig(
        size=spec.space.size,
        inputs=spec.input_channels,
        outputs=spec.output_channels,
        patch=network.patch,
        depth=network.depth,
        width=network.width,
        heads=network.heads,
        classes=spec.conditioning.embedded_classes,
    )
