"""Counting what a network costs.

"FLOPs" in paper 3 are multiply–accumulates of one forward pass of one image, without the two
products of attention; `count_cost` gives that figure and the one with attention.
"""

from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from unequal.models.backbones.backbone import backbone_of

#: A training step is counted as three forward passes: one forward, two for the backward pass.
FORWARDS_PER_STEP = 3
ATTENTION_PRODUCTS = ("scaled_dot_product", "bmm", "flash_attention")


@dataclass(frozen=True)
class Cost:
    """Cost of a network: multiply–accumulates of one image, without and with attention, and parameters."""

    macs: int
    macs_with_attention: int
    parameters: int


def count_cost(net: nn.Module) -> Cost:
    """Count one forward pass of one image; shapes decide, weights do not matter."""
    inputs = backbone_of(net).example_inputs(net)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        net(*inputs)
    flops = {str(operator): count for operator, count in counter.get_flop_counts()["Global"].items()}
    attention = sum(n for operator, n in flops.items() if any(part in operator for part in ATTENTION_PRODUCTS))
    total = sum(flops.values())
    # The counter counts a multiply and an add as two operations.
    return Cost((total - attention) // 2, total // 2, sum(p.numel() for p in net.parameters()))


def training_flops(macs: int, images: int) -> int:
    """Multiply–accumulates of training on that many images: 3 × forward."""
    return FORWARDS_PER_STEP * macs * images


def images_affordable(flops: float, macs: int) -> int:
    """Number of training images that so many multiply–accumulates pay for, to the nearest."""
    return round(flops / (FORWARDS_PER_STEP * macs))
