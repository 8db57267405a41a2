"""What is pruned, and for what: the input that all methods share."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from unequal.models.folder import ModelRecord
from unequal.settings.pruning import Timesteps
from unequal.timesteps.partition import Partition, TimestepRange, TimestepSet
from unequal.timesteps.samplers import IndependentSampler, within
from unequal.training.batches import BatchSource
from unequal.training.objectives.objective import Objective, conditioned, objective_for
from unequal.training.objectives.three_heads import BestHead

#: Images go through the network in parts of so many pixels, 64 of 32 × 32, so that large ones fit.
PIXELS_AT_ONCE = 64 * 32**2


@dataclass(frozen=True)
class Target:
    """A trained network, the timesteps that its pruned form is for, and the limit of its cost.

    Attributes:
        net: on the device where gradients and losses are taken.
        record: of the network.
        images: [N, C, H, W] uint8, the training set.
        range: of timesteps.
        limit_macs: largest number of multiply–accumulates of one image.
        seed: of everything random.
        labels: [N] int64 of the images, where they have any.
    """

    net: nn.Module
    record: ModelRecord
    images: Tensor
    range: TimestepSet
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
        return max(1, PIXELS_AT_ONCE // self.record.spec.space.size**2)

    def range_of(self, timesteps: Timesteps) -> TimestepSet:
        """The group's timesteps, or all."""
        if timesteps == "group":
            return self.range
        return TimestepRange(0, self.record.spec.timesteps - 1)

    def source(self, timesteps: Timesteps, batch_size: int, seed: int) -> BatchSource:
        """Batches at timesteps drawn uniformly from the group's, or from all."""
        sampler = IndependentSampler(within(self.range_of(timesteps), self.record.spec.timesteps))
        return BatchSource(self.images, batch_size, sampler, seed, False, self.device, labels=self.labels)

    def objective(self) -> Objective:
        """The loss that the network was trained with, without loss weights."""
        spec = self.record.spec
        schedule = spec.noise_schedule().to(self.device)
        if spec.prediction != "mixed":
            return objective_for(spec, schedule)
        # Of several heads, the best one of each image learns, as in paper 1.
        whole = Partition.of_lengths([spec.timesteps])
        best = BestHead(schedule, whole, budget=1, compare="common")
        return conditioned(best, spec.condition)
