"""UNet2DModel: a network of pixels that is told the time, and perhaps a label."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from diffusers.models.unets.unet_2d import UNet2DModel
from torch import Tensor

from unequal.errors import UserError
from unequal.profiler.model import Place, Told, network_of
from unequal.profiler.schedule import Trained


class OfPixels:
    """Sees images as they are, and forgets nothing."""

    told: Told = "nothing"
    classes: int | None = None

    def __init__(self, net: UNet2DModel, trained: Trained) -> None:
        self.net, self.trained, self.family = net, trained, UNet2DModel.__name__
        config = net.config
        self.pixels = config["in_channels"], config["sample_size"]
        self.shape = config["in_channels"], config["sample_size"], config["sample_size"]
        if config["num_class_embeds"]:
            self.told, self.classes = "labels", config["num_class_embeds"]

    def encode(self, images: Tensor) -> Tensor:
        return images

    def conditions(self, described: Sequence[Any]) -> Mapping[str, Tensor]:
        return {"class_labels": torch.tensor(described)} if self.told == "labels" else {}

    def settle(self) -> None:
        """Nothing else was loaded."""

    def answer(self, x_t: Tensor, told: Tensor, conditions: Mapping[str, Tensor]) -> Tensor:
        answer: Tensor = self.net(x_t.to(self.net.dtype), told, **conditions).sample
        # DDPM's learned variance lies behind the prediction.
        return answer[:, : x_t.shape[1]]


def load(place: Place, trained: Trained, device: torch.device, dtype: torch.dtype) -> OfPixels:
    """The network of a pipeline. Raises UserError where it is for other than square images, or told noise levels."""
    net = network_of(UNet2DModel, place.network, device, dtype)
    config = net.config
    if not isinstance(config["sample_size"], int) or config["in_channels"] not in (1, 3):
        told = f"sample_size {config['sample_size']}, in_channels {config['in_channels']}"
        raise UserError(f"{place.network}: {told}; allowed: square images, grey or RGB")
    if config["time_embedding_type"] == "fourier":
        raise UserError(f"{place.network}: told noise levels (time_embedding_type 'fourier'); allowed: timesteps")
    if config["class_embed_type"] is not None:
        raise UserError(f"{place.network}: class_embed_type '{config['class_embed_type']}'; allowed: labels, or none")
    return OfPixels(net, trained)
