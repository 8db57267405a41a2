"""The loss of a batch, as an object that may learn from the losses it has seen."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from torch import Tensor, nn

from unequal.diffusion.network import NetworkFunction
from unequal.training.batches import Batch


@dataclass(frozen=True)
class Losses:
    """Named terms of a batch: `weighted` [B] is what is learned from, `terms` are means for the log."""

    weighted: Tensor
    terms: dict[str, Tensor]


class Objective(nn.Module, ABC):
    """A batch in, its losses out; what an objective remembers stands in buffers, which the checkpoint holds.

    A step's batch comes in parts, one a process and accumulated part. `forward` goes by what was known before the
    step and only adds up; `end_step` takes the sums in, so that the same is learned from any number of parts.
    """

    #: Learning rate of what it learns itself; None: that of the network.
    own_lr: float | None = None

    @abstractmethod
    def forward(self, net: NetworkFunction, batch: Batch) -> Losses:
        """Losses of a part of a batch."""

    def end_step(self, total: Callable[[Tensor], Tensor]) -> None:
        """Take in what the parts of a step have left; `total` sums a tensor over all processes."""

    def factors(self) -> Tensor | None:
        """By what it has come to multiply the losses of timesteps, [T]; None where settings tell it."""
        return None

    def statistics(self) -> dict[str, np.ndarray]:
        """What a training has shown besides its curve, as named tables; most show nothing."""
        return {}
