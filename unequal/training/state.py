"""What a training is gone on from, beside averaged weights: its last weights, and the moments of its optimizer.

It lies in the model's folder, where the recipe asks for that, so that a training that goes on from the model takes the
steps that its parent would have taken.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import torch
from torch import Tensor, nn

from unequal.models.folder import STATE
from unequal.training.checkpoint import Checkpoint, below, prefixed, read_whole, write_checkpoint
from unequal.training.optimizer import moments


@dataclass(frozen=True)
class TrainingState:
    """A point of a training.

    Attributes:
        weights: by name, as they were after the last step.
        moments: of the optimizer: `<parameter>.<moment>`, Adam's number of steps for its bias correction among them.
        optimizer: its name in the settings.
    """

    weights: dict[str, Tensor]
    moments: dict[str, Tensor]
    optimizer: str

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> Self:
        """That of a checkpoint, or of what else holds the tensors of `state_tensors` and names the optimizer."""
        saved = checkpoint.tensors
        return cls(below("net.", saved), below("optimizer.", saved), checkpoint.facts["optimizer"])

    @classmethod
    def load(cls, folder: Path) -> Self:
        """The state in a model folder. Raises UserError where it is damaged."""
        return cls.of(read_whole(folder / STATE, "make the model again"))

    def save(self, folder: Path) -> None:
        """Write it into a model folder."""
        tensors = prefixed("net.", self.weights) | prefixed("optimizer.", self.moments)
        write_checkpoint(folder / STATE, Checkpoint(tensors, {"optimizer": self.optimizer}))

    def fits(self, net: nn.Module) -> bool:
        """Whether it is of this network, or of one like it."""
        return shapes(self.weights) == shapes(net.state_dict())


def shapes(tensors: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    """Shape of each tensor, by name."""
    return {name: tensor.shape for name, tensor in tensors.items()}


def state_tensors(net: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Weights and moments of a training as they are, as tensors of a checkpoint."""
    return prefixed("net.", net.state_dict()) | prefixed("optimizer.", moments(optimizer, net))
