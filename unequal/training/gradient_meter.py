"""Measure the gradients of a network's loss over cells of timesteps, one cell after the other.

Lengths come from single images, mean gradients from many more images at once: a fold of images leaves one vector, and
products of different folds have no bias.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from unequal.data.prepared import PreparedData, tensor_of
from unequal.diffusion.schedule import NoiseSchedule
from unequal.measures.gradients import GradientSample, flat_gradients, gram, squared_norms
from unequal.randomness import Stream, numpy_generator
from unequal.settings.recipe import MeasuredGradients
from unequal.timesteps.partition import FOLDS, Affinity, Partition, TimestepRange, equal_log_snr
from unequal.training.batches import Batch, draw_at
from unequal.training.objectives import Objective
from unequal.workspace import UNSTORED, Chunks, Maker


@dataclass(frozen=True)
class GradientMeter:
    """Measures a network as training sees it; its parameters ask for gradients.

    Args:
        net, objective: on one device.
        images: [N, C, H, W] uint8.
        folds: F, three or more.
        single_images: a cell, whose gradients are taken one by one; a multiple of F.
        mean_images: a cell, a F-th of which goes through the network at once; a multiple of F.
        seed: of all draws.
        labels: [N] int64 of the images, where they have any.
    """

    net: nn.Module
    objective: Objective
    images: Tensor
    folds: int
    single_images: int
    mean_images: int
    seed: int
    labels: Tensor | None = None

    def sample(self, cells: Partition) -> GradientSample:
        """The gradients in inclusive ranges of timesteps. Holds as many vectors of all parameters as cells × folds."""
        found = [self.measured(cell) for cell in cells]
        squares = np.stack([lengths for lengths, _ in found])
        products = gram(torch.cat([means for _, means in found])).numpy()
        return GradientSample(squares, products.reshape((len(cells), self.folds) * 2))

    def measured(self, cell: TimestepRange) -> tuple[np.ndarray, Tensor]:
        """Squared lengths [F, n] of single images' gradients in a cell of timesteps, and mean gradients [F, P]."""
        generator = numpy_generator(self.seed, Stream.GRADIENTS, *cell)
        parameters = list(self.net.parameters())
        torch.manual_seed(int(generator.integers(2**62)))  # dropout's
        singles = self.drawn(cell, self.single_images, generator).singles()
        squares = squared_norms(self.losses(singles), parameters).reshape(self.folds, -1)
        size = self.mean_images // self.folds
        folds = (self.drawn(cell, size, generator) for _ in range(self.folds))
        return squares.cpu().numpy(), flat_gradients(self.losses(folds), parameters)

    def drawn(self, cell: TimestepRange, count: int, generator: np.random.Generator) -> Batch:
        """Images at timesteps drawn uniformly from a cell."""
        timesteps = generator.integers(cell.first, cell.last, size=count, endpoint=True)
        return draw_at(self.images, timesteps, generator, next(self.net.parameters()).device, self.labels)

    def losses(self, batches: Iterator[Batch]) -> Iterator[Tensor]:
        return (self.objective(self.net, batch).weighted.mean() for batch in batches)


def affinity_of(
    net: nn.Module,
    objective: Objective,
    data: PreparedData,
    schedule: NoiseSchedule,
    chosen: MeasuredGradients,
    seed: int,
    chunks: Chunks = UNSTORED,
) -> Affinity:
    """Cosines between mean gradients over cells of equal log-SNR; cells without a timestep are left out."""
    cells = equal_log_snr(schedule, chosen.cells, drop_empty=True)
    meter = GradientMeter(
        net.train().requires_grad_(True),
        objective,
        tensor_of(data.train),
        folds=FOLDS,
        single_images=FOLDS,
        mean_images=chosen.images,
        seed=seed,
        labels=data.labels_of("train"),
    )

    def cosines() -> np.ndarray:
        return meter.sample(cells).moments().cosines

    (found,) = chunks.all({"cosines": Maker((len(cells), len(cells)), cosines)})
    return Affinity(cells, found)
