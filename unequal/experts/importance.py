"""Importance of channels: the target of a pruning, gradients of its loss, and the methods that rank units by them.

The least important units are pruned first. All values are relative to the mean of their layer, so that layers can be
compared. Gradients of the denoising loss, which importance by Taylor expansion reads, are left in the network.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from unequal.experts.anatomy import Anatomy, Importance, Unit, units_by
from unequal.models.denoiser import Denoiser
from unequal.models.folder import ModelRecord
from unequal.randomness import Stream, numpy_generator
from unequal.settings import pruning as settings
from unequal.settings.pruning import Timesteps
from unequal.timesteps.partition import Partition, TimestepRange, TimestepSet
from unequal.timesteps.samplers import TimestepSampler, within
from unequal.training.batches import Batch, BatchSource, draw_at
from unequal.training.objectives import Objective, objective_for
from unequal.training.three_heads import BestHead

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
        return next(self.net.parameters()).device

    @property
    def images_at_once(self) -> int:
        return max(1, PIXELS_AT_ONCE // self.record.spec.space.size**2)

    def range_of(self, timesteps: Timesteps) -> TimestepSet:
        if timesteps == "group":
            return self.range
        return TimestepRange(0, self.record.spec.timesteps - 1)

    def source(self, timesteps: Timesteps, batch_size: int, seed: int) -> BatchSource:
        """Batches at timesteps drawn uniformly from the group's, or from all."""
        sampler = TimestepSampler(within(self.range_of(timesteps), self.record.spec.timesteps))
        return BatchSource(self.images, batch_size, sampler, seed, False, self.device, labels=self.labels)

    def denoiser_of(self, batch: Batch) -> Denoiser:
        """The network, conditioned on a batch."""
        return Denoiser.of(self.net, self.record.spec).conditioned_on(batch.x0, batch.labels)

    def objective(self) -> Objective:
        """The loss that the network was trained with, without loss weights."""
        spec = self.record.spec
        schedule = spec.noise_schedule().to(self.device)
        if spec.prediction != "mixed":
            return objective_for(spec, schedule)
        # Of several heads, the best one of each image learns, as in paper 1.
        whole = Partition.of_lengths([spec.timesteps])
        return BestHead(whole, budget=1, compare="common", device=self.device)


@contextmanager
def differentiable(net: nn.Module) -> Iterator[None]:
    """Let a network take gradients for a while; afterwards it has none, and is as it was."""
    before = [(parameter, parameter.requires_grad) for parameter in net.parameters()]
    net.requires_grad_(True)
    try:
        with torch.enable_grad():
            yield
    finally:
        net.zero_grad(set_to_none=True)
        for parameter, required in before:
            parameter.requires_grad_(required)


def batch_gradient(target: Target, timesteps: Timesteps, images: int) -> None:
    """The gradient of one batch's mean loss, at uniform timesteps of a range."""
    source, objective = target.source(timesteps, images, target.seed), target.objective()
    for start in range(0, images, target.images_at_once):
        batch = source.draw(0, slice(start, start + target.images_at_once))
        (objective(target.denoiser_of(batch), batch).weighted.sum() / images).backward()


def ascending_gradient(target: Target, timesteps: Timesteps, images: int, threshold: float) -> int:
    """Σ_t ∂L_t/∂w over rising timesteps of a range, ending before L_t falls to a share of the largest loss so far.

    Args:
        target: its network gets the gradients.
        timesteps: which range.
        images: behind each L_t.
        threshold: the share.

    Returns:
        The last timestep of the sum.
    """
    objective, largest = target.objective(), 0.0
    chosen = target.range_of(timesteps)
    for part in parts(chosen, max(1, target.images_at_once // images)):
        generator = numpy_generator(target.seed, Stream.PRUNING, int(part[0]))
        batch = draw_at(target.images, np.repeat(part, images), generator, target.device, target.labels)
        losses = objective(target.denoiser_of(batch), batch).weighted.reshape(len(part), images).mean(1)
        counted = weighty(losses.detach(), largest, threshold)
        losses[:counted].sum().backward()
        if counted < len(part):
            return int(part[0]) + counted - 1
        largest = max(largest, float(losses.detach().max()))
    return chosen.last


def parts(chosen: TimestepSet, size: int) -> Iterator[np.ndarray]:
    """Timesteps in rising order, so many at a time."""
    rising = np.arange(chosen.last + 1)[chosen.slice]
    for start in range(0, len(rising), size):
        yield rising[start : start + size]


def weighty(losses: Tensor, largest: float, threshold: float) -> int:
    """Number of these losses [n] in a row above a share of the running maximum, which begins with `largest`."""
    maxima = losses.cummax(0).values.clamp(min=largest)
    return int((losses > threshold * maxima).long().cumprod(0).sum())


def ranked(method: settings.Importance, target: Target, anatomy: Anatomy) -> list[Unit]:
    """All units that may go, the least important first."""
    with differentiable(target.net):
        return units_by(importance_of(method, target), anatomy)


def importance_of(method: settings.Importance, target: Target) -> Importance:
    """The importance by that method; where it needs gradients, they are left in the network."""
    import torch_pruning as tp

    match method:
        case settings.Random():
            generator = torch.Generator().manual_seed(target.seed)
            return lambda group: torch.rand(len(group[0].idxs), generator=generator)
        case settings.Magnitude():
            return tp.importance.GroupMagnitudeImportance(p=2, normalizer="mean")
        case settings.Taylor():
            batch_gradient(target, method.timesteps, method.images)
        case settings.DiffPruning():
            ascending_gradient(target, method.timesteps, method.images, method.threshold)
    return tp.importance.GroupTaylorImportance(normalizer="mean")
