"""Objectives of networks that are told something of the batch beside the noisy images and their timesteps."""

from collections.abc import Callable

import numpy as np
from torch import Tensor

from unequal.diffusion.network import NetworkFunction
from unequal.settings.condition import Condition, Unconditional
from unequal.training.batches import Batch
from unequal.training.objectives.objective import Losses, Objective


def conditioned(objective: Objective, condition: Condition) -> Objective:
    """An objective whose network is told a condition of the batch; as it is where there is none."""
    return objective if isinstance(condition, Unconditional) else Conditioned(objective, condition)


class Conditioned(Objective):
    """An objective whose network is told something of the batch."""

    def __init__(self, objective: Objective, condition: Condition) -> None:
        super().__init__()
        self.objective = objective
        self.condition = condition

    def forward(self, net: NetworkFunction, batch: Batch) -> Losses:
        of_batch = self.condition.of(batch.x0, batch.labels)
        return self.objective(self.condition.tell(net, of_batch), batch)

    def end_step(self, total: Callable[[Tensor], Tensor]) -> None:
        self.objective.end_step(total)

    def statistics(self) -> dict[str, np.ndarray]:
        return self.objective.statistics()
