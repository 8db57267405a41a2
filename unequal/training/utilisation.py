"""Model FLOPs utilisation (2204.02311): the operations that a network needs a second, over what its GPU could do.

The peak is the published rate of dense matrix products in bf16, whatever precision a training has: figures of all
trainings on a card then compare, with published ones too. Measuring products instead would take time at each start, and
vary with a card's clock.
"""

import torch
from torch import nn

from unequal.models.backbones.backbone import count_cost, training_flops

#: Part of the name that CUDA gives a card → bf16 operations a second without sparsity, by NVIDIA's data sheets, where
#: they often stand with sparsity, twice as high. The first part that fits counts.
PEAKS = {
    "B200": 2250e12,
    "H200": 989e12,
    "H100 PCIe": 756e12,
    "H100 NVL": 835e12,
    "H100": 989e12,
    "A100": 312e12,
    "L40S": 362e12,
    "L4": 121e12,
    "A10G": 70e12,
    "A10": 125e12,
    "A40": 150e12,
    "RTX 4090": 165e12,
    "RTX 3090": 71e12,
}


def peak_flops(device: torch.device) -> float | None:
    """Return a GPU's peak in operations a second; None for a CPU, and for a card that is not in the table."""
    if device.type != "cuda":
        return None
    name = torch.cuda.get_device_name(device)
    return next((peak for part, peak in PEAKS.items() if part in name), None)


def flops_per_image(net: nn.Module) -> int:
    """Count the operations of training with one image, attention included; a multiply and an add are two."""
    return 2 * training_flops(count_cost(net).macs_with_attention, 1)


def utilisation_of(net: nn.Module, device: torch.device, devices: int = 1) -> float | None:
    """Return the share of a number of devices' peak that an image a second uses; None where the peak is unknown."""
    peak = peak_flops(device)
    return None if peak is None else flops_per_image(net) / (peak * devices)
