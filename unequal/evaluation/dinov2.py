"""DINOv2's features (2304.07193), whose Fréchet distance is FD-DINOv2 (2306.04675), from a folder of its weights.

Images are brought to its size as EDM2's code does it (2312.02696), and positions as DINOv2's own, so that figures are
on the scale of published ones. The network is that of transformers; nothing is downloaded, and no code comes with it.
"""

from math import isqrt
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from unequal.errors import UserError, needs
from unequal.models.foreign import load_whole, quiet
from unequal.runtime.files import json_or_none

#: All that is read of a folder.
CONFIG, TENSORS = "config.json", "model.safetensors"
#: As it stands in a config.json; with registers it is another network.
MODEL_TYPE = "dinov2"
#: Pixels a side of what it sees.
SIDE = 224
#: Mean and deviation of red, green and blue in ImageNet, of values in [0, 1].
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
#: DINOv2's code stretches its positions to so much more than the patches of a side.
OFFSET = 0.1


class Dinov2(nn.Module):
    """The class token, after the last layer's norm.

    Args:
        network: transformers' Dinov2Model, whose positions are stretched here.
    """

    def __init__(self, network: Any) -> None:
        super().__init__()
        embeddings, patches = network.embeddings, SIDE // network.config.patch_size
        positions = stretched(embeddings.position_embeddings.detach(), patches)
        embeddings.position_embeddings = nn.Parameter(positions, requires_grad=False)
        self.network = network

    @property
    def features(self) -> int:
        """Length of the feature vector."""
        return int(self.network.config.hidden_size)

    def forward(self, images: Tensor) -> Tensor:
        """Features [B, F] of uint8 RGB images [B, 3, H, W]."""
        return self.network(resized(images), return_dict=True).pooler_output


def resized(images: Tensor) -> Tensor:
    """Input of the network [B, 3, 224, 224] for uint8 RGB images [B, 3, H, W]."""
    # Without antialiasing, as torch-fidelity resizes, images that are made smaller would be others.
    pixels = functional.interpolate(images.float(), size=(SIDE, SIDE), mode="bicubic", antialias=True) / 255
    mean, deviation = (pixels.new_tensor(values).view(3, 1, 1) for values in (MEAN, DEVIATION))
    return (pixels - mean) / deviation


def stretched(positions: Tensor, patches: int) -> Tensor:
    """Embedded positions [1, 1 + n², F], the class token's first, for other numbers of patches [1, 1 + patches², F].

    transformers would lay the outer edges of both grids upon one another, where DINOv2's code has its offset.
    """
    token, grid = positions[:, :1], positions[:, 1:]
    side = isqrt(grid.shape[1])
    if side == patches:
        return positions
    image = grid.transpose(1, 2).unflatten(2, (side, side))
    image = functional.interpolate(image, scale_factor=(patches + OFFSET) / side, mode="bicubic")
    return torch.cat([token, image.flatten(2).transpose(1, 2)], dim=1)


def dinov2_of(folder: Path, place: str) -> Dinov2:
    """The network in a folder, to be asked only.

    Args:
        folder: with config.json and model.safetensors, as transformers saves a Dinov2Model, and nothing else.
        place: what a refusal begins with.

    Raises:
        UserError: they are damaged or do not fit one another, or the network cannot see images of 224 × 224.
        MissingExtra: transformers is not installed.
    """
    needs(__name__, "profile", "transformers")
    with quiet(transformers=True):
        from transformers import Dinov2Model

        network = load_whole(
            Dinov2Model,
            str(folder),
            place,
            local_files_only=True,
            attn_implementation="sdpa",  # a config.json may name a kernel, which would be downloaded
            ignore_mismatched_sizes=True,  # those are reported, and are refused
            exact=True,
        )
    check_sizes(network.config, place)
    return Dinov2(network.float().eval().requires_grad_(False))


def check_files(folder: Path, place: str) -> None:
    """Raise UserError where a folder lacks what is read of it, or is another model's."""
    for name in (CONFIG, TENSORS):
        if not (folder / name).is_file():
            raise UserError(f"{place}: has no {name}; allowed: a folder with {CONFIG} and {TENSORS} of a Dinov2Model")
    config = json_or_none(folder / CONFIG)
    kind = config.get("model_type") if isinstance(config, dict) else None
    if kind != MODEL_TYPE:
        kind_found = "names no model_type" if kind is None else f"has the model_type {kind!r}"
        raise UserError(f"{place}: {CONFIG} {kind_found}; allowed: {MODEL_TYPE!r}")


def check_sizes(config: Any, place: str) -> None:
    """Raise UserError where a network cannot see square images of three channels, cut into whole patches."""
    size, patch, channels = config.image_size, config.patch_size, config.num_channels
    if not isinstance(patch, int) or SIDE % patch:
        raise UserError(f"{place}: patch_size: {patch}; allowed: a number that divides {SIDE}, the pixels of a side")
    if not isinstance(size, int) or size < patch:
        raise UserError(f"{place}: image_size: {size}; allowed: a number, {patch} or more")
    if channels != 3:
        raise UserError(f"{place}: num_channels: {channels}; allowed: 3")
