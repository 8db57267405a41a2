"""A training loss on draws that stay the same: a function of the weights alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from unequal.timesteps.draws import LowDiscrepancy
from unequal.timesteps.samplers import TimestepSampler, uniform
from unequal.training.batches import Batch, BatchSource
from unequal.training.objectives import Objective


@dataclass(frozen=True)
class FixedLoss:
    """Loss of a network on the same draws (x0, t, ε) at each call.

    Attributes:
        net: asked with the weights that it has at that moment.
        objective: one that learns nothing from what it sees.
        batches: the draws, as many at once as memory allows.
    """

    net: nn.Module
    objective: Objective
    batches: Sequence[Batch]

    def losses(self) -> Tensor:
        """Loss of each draw, [n]."""
        return torch.cat([self.objective(self.net, batch).weighted for batch in self.batches])

    def parts(self) -> list[Callable[[], Tensor]]:
        """One scalar a batch, whose sum is the mean loss of all draws."""
        return [partial(self.part, batch) for batch in self.batches]

    def part(self, batch: Batch) -> Tensor:
        """A batch's share of the mean loss."""
        draws = sum(len(one.timesteps) for one in self.batches)
        return self.objective(self.net, batch).weighted.sum() / draws


def fixed_batches(
    images: Tensor, timesteps: int, draws: int, batch_size: int, seed: int, flips: bool, device: torch.device
) -> list[Batch]:
    """Draws of training images [N, C, H, W] (uint8) with fresh noise, at timesteps equally spaced over 0 … T−1."""
    source = BatchSource(images, draws, TimestepSampler(uniform(timesteps), draw=LowDiscrepancy()), seed, flips, device)
    return [source.draw(0, slice(first, first + batch_size)) for first in range(0, draws, batch_size)]
