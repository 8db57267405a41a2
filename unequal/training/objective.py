"""The loss of a batch: squared error of one prediction, or of the best of three heads."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from unequal.predictions import HEADS, add_noise, target, x0_error_factor
from unequal.schedule import NoiseSchedule
from unequal.training.batches import Batch
from unequal.weights import loss_weights


@dataclass(frozen=True)
class Losses:
    """Named terms of a batch: `weighted` [B] is what is learned from, `terms` are means for the log."""

    weighted: Tensor
    terms: dict[str, Tensor]


class Network(Protocol):
    """Anything that answers noisy images and timesteps as diffusers' networks do."""

    def __call__(self, sample: Tensor, timestep: Tensor) -> "Output": ...


class Output(Protocol):
    """What such a network returns."""

    sample: Tensor


def mean_square(difference: Tensor) -> Tensor:
    """Mean over all but the first dimension, [B]."""
    return difference.float().square().flatten(1).mean(1)


class SingleHead:
    """Weighted squared error of ε, v or x0.

    Args:
        prediction: of the network.
        schedule: on the training device.
        weight: kind of loss weight; see `unequal.weights`.
        gamma: its γ.
    """

    def __init__(self, prediction: str, schedule: NoiseSchedule, weight: str, gamma: float | None) -> None:
        self.prediction = prediction
        self.schedule = schedule
        self.weights = loss_weights(weight, prediction, schedule.snr, gamma).float()

    def __call__(self, net: Network, batch: Batch) -> Losses:
        alpha, sigma = self.schedule.at(batch.timesteps, batch.x0)
        output = net(add_noise(batch.x0, batch.epsilon, alpha, sigma), batch.timesteps).sample
        loss = mean_square(output - target(self.prediction, batch.x0, batch.epsilon, alpha, sigma))
        return Losses(loss * self.weights[batch.timesteps] * batch.weights, {"mse": loss.detach().mean()})


class BestHead:
    """Paper 1's mixed prediction: three heads, and for each image only the best one learns.

    "Best" is the smallest error in x0-space (`common`), where errors of x0, v and ε mean the same, or
    the smallest of the three losses as they are (`native`); the gradient is always the head's own.
    """

    def __init__(self, schedule: NoiseSchedule, weight: str, gamma: float | None, compare: str) -> None:
        self.schedule = schedule
        self.compare = compare
        self.weights = torch.stack([loss_weights(weight, head, schedule.snr, gamma).float() for head in HEADS])

    def __call__(self, net: Network, batch: Batch) -> Losses:
        alpha, sigma = self.schedule.at(batch.timesteps, batch.x0)
        outputs = net(add_noise(batch.x0, batch.epsilon, alpha, sigma), batch.timesteps).sample.chunk(len(HEADS), 1)
        targets = [target(head, batch.x0, batch.epsilon, alpha, sigma) for head in HEADS]
        losses = torch.stack([mean_square(out - goal) for out, goal in zip(outputs, targets, strict=True)])
        factors = torch.stack([x0_error_factor(head, alpha, sigma).flatten() for head in HEADS])
        ranked = losses.detach() * factors if self.compare == "common" else losses.detach()
        best = ranked.argmin(0, keepdim=True)
        loss = losses.gather(0, best)[0]
        weight = self.weights[:, batch.timesteps].gather(0, best)[0]
        wins = {f"wins_{head}": (best == i).float().mean() for i, head in enumerate(HEADS)}
        return Losses(loss * weight * batch.weights, {"mse": loss.detach().mean()} | wins)
