"""The objective of a model with one head: by what it predicts, what it learns of the variance, and what it is told."""

from collections.abc import Callable

import numpy as np
from torch import Tensor

from unequal.diffusion.schedule import NoiseSchedule
from unequal.models.spec import ModelSpec
from unequal.settings.condition import Condition, NetworkFunction, Unconditional
from unequal.training.batches import Batch
from unequal.training.hybrid import Hybrid
from unequal.training.objective import Losses, Objective, SingleHead


def objective_for(
    spec: ModelSpec, schedule: NoiseSchedule, weight: str = "none", gamma: float | None = None
) -> Objective:
    """The loss that trains a model.

    Args:
        spec: of a model with one head.
        schedule: its own, on the training device.
        weight, gamma: loss weight; see `unequal.timesteps.weights`.
    """
    kind = Hybrid if spec.variance == "learned" else SingleHead
    return conditioned(kind(spec.prediction, schedule, weight, gamma), spec.condition)


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
