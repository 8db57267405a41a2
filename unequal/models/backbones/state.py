"""Weights of networks from elsewhere, read as tensors alone."""

import pickle
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from unequal.errors import UserError

State = Mapping[str, Tensor]


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
