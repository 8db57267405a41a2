"""The loss of a network with one head."""

from torch import Tensor

from unequal.diffusion.network import NetworkFunction
from unequal.diffusion.predictions import add_noise, squared_error, target
from unequal.diffusion.schedule import NoiseSchedule
from unequal.timesteps.weights import loss_weights
from unequal.training.batches import Batch
from unequal.training.objectives.objective import Losses, Objective


class SingleHead(Objective):
    """Weighted squared error of ε, v, x0 or the velocity.

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
        return self.errors(net(self.noisy(batch), self.schedule.told(batch.timesteps)).sample, batch)

    def noisy(self, batch: Batch) -> Tensor:
        """x_t of a batch, [B, C, H, W]."""
        return add_noise(batch.x0, batch.epsilon, *self.schedule.at(batch.timesteps, batch.x0))

    def errors(self, output: Tensor, batch: Batch) -> Losses:
        """Weighted squared errors of what a network has predicted, [B, C, H, W]."""
        alpha, sigma = self.schedule.at(batch.timesteps, batch.x0)
        loss = squared_error(target(self.prediction, batch.x0, batch.epsilon, alpha, sigma), output)
        return Losses(loss * self.weights[batch.timesteps] * batch.weights, {"mse": loss.detach().mean()})
