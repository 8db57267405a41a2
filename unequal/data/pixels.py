"""Pixels as stored (uint8, 0 … 255) and as a model sees them (float32, −1 … 1); latents are stored as they are seen."""

import warnings

import numpy as np
import torch
from torch import Tensor

HALF_RANGE = 127.5


def to_model_range(images: Tensor) -> Tensor:
    """uint8 of any shape → float32 in [−1, 1], 0 to −1 and 255 to 1; floats are latents and stay as they are."""
    return images if images.is_floating_point() else images.float() / HALF_RANGE - 1


def to_uint8(images: Tensor) -> Tensor:
    """Float of any shape → the nearest of the 256 values; what lies outside [−1, 1] is clamped."""
    return ((images.float() + 1) * HALF_RANGE).round().clamp(0, 255).to(torch.uint8)


def tensor_of(images: np.ndarray) -> Tensor:
    """Images or labels as a tensor over the same memory and of its type; for mapped files, never written to."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(images)


def chosen(labels: Tensor | None, index: Tensor, device: torch.device) -> Tensor | None:
    """The labels [B] of the images with these indices, where there are any."""
    return None if labels is None else labels[index].to(device)
