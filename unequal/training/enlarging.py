"""Training for super-resolution: any objective, of a network that sees more than the noisy image."""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor

from unequal.diffusion.super_resolution import blurred
from unequal.training.batches import Batch
from unequal.training.objective import Losses, Network, Objective, Output


def for_task(objective: Objective, enlargement: int | None) -> Objective:
    """An objective as it is for generation, and for super-resolution by a factor as `Enlarging` makes it."""
    return objective if enlargement is None else Enlarging(objective, enlargement)


class Enlarging(Objective):
    """An objective whose network also sees the images of the batch at a factor-th of their resolution."""

    def __init__(self, objective: Objective, factor: int) -> None:
        super().__init__()
        self.objective = objective
        self.factor = factor

    def forward(self, net: Network, batch: Batch) -> Losses:
        return self.objective(partial(beside, net, blurred(batch.x0, self.factor)), batch)

    def end_step(self, total: Callable[[Tensor], Tensor]) -> None:
        self.objective.end_step(total)

    def statistics(self) -> dict[str, np.ndarray]:
        return self.objective.statistics()


def beside(net: Network, condition: Tensor, sample: Tensor, timestep: Tensor) -> Output:
    """A network's answer to noisy images, with a condition of their shape as further channels."""
    return net(torch.cat([sample, condition], dim=1), timestep)
