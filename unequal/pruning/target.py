"""What is pruned, and for what: the input that all methods share."""

from dataclasses import dataclass

import torch
from diffusers.models.unets.unet_2d import UNet2DModel
from torch import Tensor

from unequal.models.artifact import ModelRecord
from unequal.settings.pruning import Timesteps
from unequal.timesteps.samplers import build_sampler
from unequal.training.batches import BatchSource
from unequal.training.conditional import for_task
from unequal.training.mixing import BestHead
from unequal.training.objective import Objective
from unequal.training.objectives import objective_for

#: Images go through the network in parts of so many pixels, 64 of 32 × 32, so that large ones fit.
PIXELS_AT_ONCE = 64 * 32**2


@dataclass(frozen=True)
class Target:
    """A trained network, the timesteps that its pruned form is for, and the limit of its cost.

    Attributes:
        net: on the device where gradients and losses are taken.
        record: of the network.
        images: [N, C, H, W] uint8, the training set.
        first, last: timesteps, inclusive.
        limit_macs: largest number of multiply–accumulates of one image.
        seed: of everything random.
        labels: [N] int64 of the images, where they have any.
    """

    net: UNet2DModel
    record: ModelRecord
    images: Tensor
    first: int
    last: int
    limit_macs: float
    seed: int
    labels: Tensor | None = None

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return next(self.net.parameters()).device

    @property
    def images_at_once(self) -> int:
        """How many images go through the network together."""
        return max(1, PIXELS_AT_ONCE // self.record.image_size**2)

    def range_of(self, timesteps: Timesteps) -> tuple[int, int]:
        """The group's timesteps, or all."""
        return (self.first, self.last) if timesteps == "group" else (0, self.record.timesteps - 1)

    def source(self, timesteps: Timesteps, batch_size: int, seed: int) -> BatchSource:
        """Batches at timesteps drawn uniformly from the group's, or from all."""
        sampler = build_sampler("slot", self.record.timesteps, slot=self.range_of(timesteps))
        return BatchSource(self.images, batch_size, sampler, seed, False, self.device, labels=self.labels)

    def objective(self) -> Objective:
        """The loss that the network was trained with, without loss weights."""
        schedule = self.record.noise_schedule().to(self.device)
        if self.record.prediction != "mixed":
            return objective_for(self.record, schedule)
        # Of several heads, the best one of each image learns, as in paper 1.
        whole = torch.zeros(self.record.timesteps, dtype=torch.int64, device=self.device)
        best = BestHead(schedule, whole, budget=1, weight="none", gamma=None, compare="common")
        return for_task(best, self.record)
