"""Weights of networks: read from foreign files, checked, merged, and moved to a device one network at a time.

Networks that were trained further from one base are merged by task arithmetic (2212.04089),
θ = θ_base + Σ_i w_i·(θ_i − θ_base); Decouple-Then-Merge (2410.06664) makes one diffusion model of the experts for
ranges of timesteps in this way.
"""

import math
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from unequal.errors import UserError

State = Mapping[str, Tensor]
Weights = Mapping[str, Tensor]
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


class Merged(NamedTuple):
    """Merged weights, and how what the networks have learned goes together.

    Attributes:
        weights: by name.
        relative_lengths: of each task vector, as a share of the base's weights.
        length_over_orthogonal: length of the weighted sum, over what it would be were the task vectors orthogonal. 1:
            what the networks have learned is orthogonal; √N: all have learned the same; less than 1: they disagree.
            None where no weight moves.
    """

    weights: dict[str, Tensor]
    relative_lengths: list[float]
    length_over_orthogonal: float | None


def merge(base: Weights, trained: Iterable[Weights], factors: Sequence[float]) -> Merged:
    """θ_base + Σ_i w_i·(θ_i − θ_base).

    Args:
        base: from which all were trained further.
        trained: N networks' weights, taken one after the other, so that never more than one need be in memory.
        factors: w_i of each.

    Raises:
        UserError: one is not of the base's architecture, or the merged weights are not finite.
    """
    change, lengths = torch.zeros(sum(weights.numel() for weights in base.values())), list[float]()
    for factor, weights in zip(factors, trained, strict=True):
        vector = task_vector(base, weights)
        change += factor * vector
        lengths.append(float(vector.norm()))
    merged = moved(base, change)
    check_finite(merged, "merging")
    whole = float(torch.cat([weights.flatten() for weights in base.values()]).norm())
    orthogonal = math.hypot(*(factor * length for factor, length in zip(factors, lengths, strict=True)))
    agreement = float(change.norm()) / orthogonal if orthogonal else None
    return Merged(merged, [length / whole for length in lengths], agreement)


def task_vector(base: Weights, trained: Weights) -> Tensor:
    """Task vector θ_i − θ_base: the change by training, as one vector in the order of the base's names.

    Raises:
        UserError: the two are not of one architecture.
    """
    for name in sorted({*base, *trained}):
        if name not in base or name not in trained or base[name].shape != trained[name].shape:
            raise UserError(f"weights '{name}' differ from the base's in shape; only unpruned experts can be merged")
    return torch.cat([(trained[name] - weights).flatten() for name, weights in base.items()])


def moved(base: Weights, change: Tensor) -> dict[str, Tensor]:
    """The base with a change added to all its weights, laid out as a task vector."""
    parts = change.split([weights.numel() for weights in base.values()])
    return {name: weights + part.view_as(weights) for (name, weights), part in zip(base.items(), parts, strict=True)}


def shares(weights: str | float | Sequence[float], experts: int) -> list[float]:
    """The weight w_i of each of N task vectors.

    Args:
        weights: `mean` (1/N each), one number for all, or N numbers.
        experts: N.

    Raises:
        UserError: another number of weights than of experts.
    """
    if isinstance(weights, str):
        return [1 / experts] * experts
    if isinstance(weights, int | float):
        return [float(weights)] * experts
    if len(weights) != experts:
        raise UserError(f"merging.weights: {len(weights)} weights for {experts} experts; allowed: one for each")
    return list(weights)


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
