"""Many networks and little memory: their weights stay in host memory, and one at a time is copied to a device."""

from collections.abc import Iterator, Sequence
from itertools import chain

import torch
from torch import Tensor, nn

#: The share of a device's free memory that weights may fill; images and activations need the rest.
SHARE = 0.5


class OneAtATime:
    """Networks in host memory, of which only the one that was asked for last is on the device.

    Args:
        nets: on the CPU; what they compute does not change, only where their weights lie.
        device: where they are asked.
    """

    def __init__(self, nets: Sequence[nn.Module], device: torch.device) -> None:
        self.device = device
        self.host = {net: [tensor.data for tensor in tensors(net)] for net in nets}
        self.present: nn.Module | None = None

    def bring(self, net: nn.Module) -> None:
        """Copy a network's weights to the device, in the place of those that are there."""
        if net is self.present:
            return
        if self.present is not None:
            # Back to the host's own: nothing is copied, and the device's memory is free at once.
            for tensor, kept in zip(tensors(self.present), self.host[self.present], strict=True):
                tensor.data = kept
        for tensor, kept in zip(tensors(net), self.host[net], strict=True):
            tensor.data = kept.to(self.device, copy=True)
        self.present = net


def tensors(net: nn.Module) -> Iterator[Tensor]:
    """All that a network's answers depend on."""
    return chain(net.parameters(), net.buffers())


def all_fit(bytes_of_weights: int, device: torch.device) -> bool:
    """Whether so many bytes of weights may lie on a device at once. Host memory holds them anyway."""
    return device.type != "cuda" or bytes_of_weights <= SHARE * torch.cuda.mem_get_info(device)[0]
