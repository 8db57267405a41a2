"""Three heads on a flow, where the second one predicts the velocity."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from torch import Tensor, cat

from unequal.diffusion.network import NetworkFunction
from unequal.diffusion.predictions import HEADS, HEADS_OF_FLOW, target
from unequal.diffusion.schedule import NoiseSchedule
from unequal.training.batches import Batch
from unequal.training.objectives.objective import Losses, Objective


class OnFlow(Objective):
    """An objective of x0, v and ε for a network that answers x0, the velocity and ε, and is told the flow's times.

    What lies between the two targets, v − u, is added to the network's answer: its error stays as it is, and so does
    what that means for x0, σ² for either on a flow.
    """

    def __init__(self, objective: Objective, schedule: NoiseSchedule) -> None:
        super().__init__()
        self.objective = objective
        self.schedule = schedule

    def forward(self, net: NetworkFunction, batch: Batch) -> Losses:
        between = self.targets(HEADS, batch) - self.targets(HEADS_OF_FLOW, batch)

        def answer(sample: Tensor, timestep: Tensor, **told: Any) -> Any:
            return SimpleNamespace(sample=net(sample, self.schedule.told(timestep), **told).sample + between)

        return self.objective(answer, batch)

    def targets(self, heads: tuple[str, ...], batch: Batch) -> Tensor:
        """What the heads should answer, one behind the other, [B, 3·C, H, W]."""
        levels = self.schedule.at(batch.timesteps, batch.x0)
        return cat([target(head, batch.x0, batch.epsilon, *levels) for head in heads], dim=1)

    def end_step(self, total: Callable[[Tensor], Tensor]) -> None:
        self.objective.end_step(total)

    def statistics(self) -> dict[str, np.ndarray]:
        return self.objective.statistics()
