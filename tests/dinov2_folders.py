"""Folders with a tiny DINOv2 of random weights, as transformers saves it."""

from pathlib import Path
from typing import Any

import torch
from transformers import Dinov2Config, Dinov2Model

FEATURES = 32
SIZES = {"hidden_size": FEATURES, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 28, "patch_size": 14}


def write_dinov2(folder: Path, **changes: Any) -> Dinov2Model:
    """Save a network of chosen sizes and return it; every weight changes its output."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = Dinov2Model(Dinov2Config(**SIZES | changes)).eval().requires_grad_(False)
        for weight in net.parameters():
            weight.normal_(0, 0.3)
    net.save_pretrained(folder)
    return net
