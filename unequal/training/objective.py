"""The loss of a batch, as an object that may learn from the losses it has seen."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from torch import Tensor, nn

from unequal.diffusion.predictions import add_noise, target
from unequal.diffusion.schedule import NoiseSchedule
from unequal.settings.condition import NetworkFunction
from unequal.timesteps.weights import loss_weights
from unequal.training.batches import Batch


@dataclass(frozen=True)
class Losses:
    """Named terms of a batch: `weighted` [B] is what is learned from, `terms` are means for the log."""

    weighted: Tensor
    terms: dict[str, Tensor]


def mean_square(difference: Tensor) -> Tensor:
    """Mean over all but the first dimension, [B]."""
    return difference.float().square().flatten(1).mean(1)


class Objective(nn.Module, ABC):
    """A batch in, its losses out; what an objective remembers stands in buffers, which the checkpoint holds.

    A step's batch comes in parts, one a process and accumulated part. `forward` goes by what was known before the
    step and only adds up; `end_step` takes the sums in, so that the same is learned from any number of parts.
    """

    @abstractmethod
    def forward(self, net: NetworkFunction, batch: Batch) -> Losses:
        """Losses of a part of a batch."""

    def end_step(self, total: Callable[[Tensor], Tensor]) -> None:
        """Take in what the parts of a step have left; `total` sums a tensor over all processes."""

    def statistics(self) -> dict[str, np.ndarray]:
        """What a training has shown besides its curve, as named tables; most show nothing."""
        return {}


class SingleHead(Objective):
    """Weighted squared error of ε, v or x0.

    Args:
        prediction: of the network.
        schedule: on the training device.
        weight: kind of loss weight; see `unequal.timesteps.weights`.
        gamma: its γ.
    """

    def __init__(self, prediction: str, schedule: NoiseSchedule, weight: str, gamma: float | None) -> None:
        super().__init__()
        self.prediction = prediction
        self.schedule = schedule
        self.weights = loss_weights(weight, prediction, schedule.snr, gamma).float()

    def forward(self, net: NetworkFunction, batch: Batch) -> Losses:
        return self.errors(net(self.noisy(batch), batch.timesteps).sample, batch)

    def noisy(self, batch: Batch) -> Tensor:
        """x_t of a batch, [B, C, H, W]."""
        return add_noise(batch.x0, batch.epsilon, *self.schedule.at(batch.timesteps, batch.x0))

    def errors(self, output: Tensor, batch: Batch) -> Losses:
        """Weighted squared errors of what a network has predicted, [B, C, H, W]."""
        alpha, sigma = self.schedule.at(batch.timesteps, batch.x0)
        loss = mean_square(output - target(self.prediction, batch.x0, batch.epsilon, alpha, sigma))
        return Losses(loss * self.weights[batch.timesteps] * batch.weights, {"mse": loss.detach().mean()})
