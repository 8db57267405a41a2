"""Losses over their running means, so that every timestep has a loss of about one."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from unequal.diffusion.network import NetworkFunction
from unequal.timesteps.partition import Partition
from unequal.training.batches import Batch
from unequal.training.objectives.objective import Losses, Objective

#: Loss of an untrained network, about, in the space of ε, v or x0: images and noise are of order 1.
UNTRAINED = 1.0


class RunningMeans(nn.Module):
    """Means of losses in bins of timesteps, a loss counting half after `half_life` further images of any bin."""

    sums: Tensor
    counts: Tensor

    def __init__(self, bins: Partition, losses: int, half_life: int, device: torch.device) -> None:
        """
        Args:
            bins: of the timesteps.
            losses: of each image, which have means of their own.
            half_life: in images.
            device: of the training.
        """
        super().__init__()
        self.bins = torch.from_numpy(bins.members).to(device)
        self.half_life = half_life
        # Before the first image of a bin, its mean is what an untrained network loses.
        start = torch.ones(len(bins), 1, dtype=torch.float64, device=device)
        self.register_buffer("sums", UNTRAINED * start.repeat(1, losses))
        self.register_buffer("counts", start)

    def at(self, timesteps: Tensor) -> Tensor:
        """Means at timesteps [n], [losses, n]."""
        return (self.sums / self.counts).float()[self.bins[timesteps]].T

    def take_in(self, images: Tensor, losses: Tensor) -> None:
        """Go on by a step: its images [bins, 1], and the sums of their losses [bins, losses]."""
        kept = 0.5 ** (images.sum() / self.half_life)
        self.sums.mul_(kept).add_(losses)
        self.counts.mul_(kept).add_(images)


class OverRunningMean(Objective):
    """Another objective, each image's loss divided by the running mean of losses at timesteps like its own.

    An optimizer that sees one range of timesteps alone scales its steps to the gradients there. With this weight the
    optimizer of all timesteps sees losses of one size too. Before the first step it divides by 1.
    """

    pending: Tensor

    def __init__(self, objective: Objective, bins: Partition, half_life: int, device: torch.device) -> None:
        """
        Args:
            objective: without weights.
            bins: of the timesteps.
            half_life: of an image in the running means, in images.
            device: of the training.
        """
        super().__init__()
        self.objective = objective
        self.means = RunningMeans(bins, 1, half_life, device)
        # Images and losses of a step. Between steps nothing is pending, and only then is a state saved.
        zeros = torch.zeros(len(bins), 2, dtype=torch.float64, device=device)
        self.register_buffer("pending", zeros, persistent=False)

    def forward(self, net: NetworkFunction, batch: Batch) -> Losses:
        found = self.objective(net, batch)
        # How often a timestep is drawn is the sampler's affair, and no part of its loss.
        loss = (found.weighted.detach() / batch.weights).double()
        rows = torch.stack([torch.ones_like(loss), loss], dim=1)
        self.pending.index_add_(0, self.means.bins[batch.timesteps], rows)
        return Losses(found.weighted / self.means.at(batch.timesteps)[0], found.terms)

    def end_step(self, total: Callable[[Tensor], Tensor]) -> None:
        self.objective.end_step(total)
        images, losses = total(self.pending).split(1, dim=1)
        self.means.take_in(images, losses)
        self.pending = torch.zeros_like(self.pending)

    def statistics(self) -> dict[str, np.ndarray]:
        return self.objective.statistics()
