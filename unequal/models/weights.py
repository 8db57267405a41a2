"""Weights of networks: read from foreign files, checked, and moved to a device one network at a time."""

import pickle
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

import torch
from torch import Tensor, nn

from unequal.errors import UserError

State = Mapping[str, Tensor]
#: The share of a device's free memory that weights may fill; images and activations need the rest.
SHARE = 0.5


def check_finite(weights: Mapping[str, Tensor], place: str) -> None:
    """Raise UserError, which begins with a place, at the first weight that is NaN or infinite."""
    for name, weight in weights.items():
        if not bool(weight.isfinite().all()):
            raise UserError(f"{place}: weight '{name}' holds NaN or infinite values; allowed: finite ones")


def check_shapes(weights: State, net: nn.Module, place: str) -> None:
    """Raise UserError at the first weight that is missing, too many, or of another shape than a network's."""
    expected = net.state_dict()
    for name, tensor in expected.items():
        if name not in weights:
            raise UserError(f"{place} lacks '{name}', which the network has")
        if (has := weights[name].shape) != tensor.shape:
            raise UserError(f"{place} has '{name}' of shape {list(has)}, where the network needs {list(tensor.shape)}")
    if further := sorted(set(weights) - set(expected)):
        raise UserError(f"{place} has '{further[0]}', for which the network has no place")


def read_state(path: Path) -> State:
    """The tensors of a file by name, in float32. Nothing but tensors is unpickled. Raises UserError."""
    if not path.is_file():
        raise UserError(f"network.pretrained: '{path}' is no file")
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise UserError(f"network.pretrained: '{path}' holds more than tensors, or is no checkpoint") from None
    except Exception as error:  # what is no such file fails in many ways
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"network.pretrained: '{path}' cannot be read ({reason})") from None
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise UserError(f"network.pretrained: '{path}' holds no tensors by name (a state dict)")
    return {name: value.float() for name, value in state.items()}


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
        self.release()
        for tensor, kept in zip(tensors(net), self.host[net], strict=True):
            tensor.data = kept.to(self.device, copy=True)
        self.present = net

    def release(self) -> None:
        """Put the host's own weights in their place again: nothing is copied, and the device's memory is free."""
        if self.present is not None:
            for tensor, kept in zip(tensors(self.present), self.host[self.present], strict=True):
                tensor.data = kept
        self.present = None


def tensors(net: nn.Module) -> Iterator[Tensor]:
    """All that a network's answers depend on."""
    return chain(net.parameters(), net.buffers())


def all_fit(bytes_of_weights: int, device: torch.device) -> bool:
    """Say whether so many bytes of weights may lie on a device at once. Host memory holds them anyway."""
    return device.type != "cuda" or bytes_of_weights <= SHARE * torch.cuda.mem_get_info(device)[0]
