"""Measure the gradients of a network's loss over cells of timesteps, one cell after the other.

Lengths come from single images, mean gradients from many more images at once: a fold of images leaves one vector, and
products of different folds have no bias.

`AdamMeter` measures in Adam's metric as well, in which its steps are those of steepest descent. For a gradient g,
Adam's step without momentum is −lr·D·g with D = 1/(√v̂ + ε), diagonal, v̂ = v/(1 − β₂ⁿ) after n steps (1412.6980,
algorithm 1). It changes the loss of other images, with gradient h, by −lr·h·D·g in first order: the product of √D·h
and √D·g. A negative cosine of gradients scaled by √D means that a step for the one raises the loss of the other.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from unequal.data.prepared import PreparedData, tensor_of
from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.measures.gradients import GradientSample, flat_gradients, gradients_of, gram, squared_norms
from unequal.randomness import Stream, numpy_generator
from unequal.settings.recipe import MeasuredGradients
from unequal.timesteps.partition import FOLDS, Affinity, Partition, TimestepRange, equal_log_snr
from unequal.training.batches import Batch, draw_at
from unequal.training.objectives import Objective
from unequal.workspace import UNSTORED, Chunks, Maker

#: PyTorch's, which nobody changes here.
EPSILON = 1e-8
#: Metrics in which gradients are measured: as they are, and as Adam scales them.
METRICS = ("raw", "adam")


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
        """The mean loss of each batch."""
        return (self.objective(self.net, batch).weighted.mean() for batch in batches)


def adam_scales(net: nn.Module, moments: Mapping[str, Tensor], second_beta: float) -> tuple[Tensor, ...]:
    """√D of each parameter of a network, in their order and on their device.

    Args:
        net: that was trained.
        moments: `<parameter>.exp_avg_sq` and `<parameter>.step` of each, as a training's state holds them.
        second_beta: β₂.

    Raises:
        UserError: a parameter without moments, as SGD leaves it.
    """
    return tuple(scale_of(name, value, moments, second_beta) for name, value in net.named_parameters())


def scale_of(name: str, parameter: Tensor, moments: Mapping[str, Tensor], second_beta: float) -> Tensor:
    """√D of one parameter."""
    if not {f"{name}.exp_avg_sq", f"{name}.step"} <= moments.keys():
        raise UserError(
            f"the training's state has no second moment of {name}; allowed: optimizer adamw, a step or more"
        )
    corrected = moments[f"{name}.exp_avg_sq"] / (1 - second_beta ** float(moments[f"{name}.step"]))
    return (corrected.sqrt() + EPSILON).rsqrt().to(parameter)


def squared_norms_in_both(losses: Iterable[Tensor], parameters: Sequence[Tensor], scales: Sequence[Tensor]) -> Tensor:
    """‖g‖² and ‖√D·g‖² of the gradient of each loss, [2, n] float64."""
    rows = []
    for gradient in gradients_of(losses, parameters):
        scaled = (part * scale for part, scale in zip(gradient, scales, strict=True))
        rows.append([float(sum(part.double().square().sum() for part in one)) for one in (gradient, scaled)])
    return torch.tensor(rows, dtype=torch.float64).T


@dataclass(frozen=True)
class AdamMeter:
    """Measures gradients in both metrics, from the same draws and by one pass through the network.

    Attributes:
        meter: of the network, its images and draws.
        scales: √D of its parameters.
    """

    meter: GradientMeter
    scales: tuple[Tensor, ...]

    def samples(self, cells: Partition) -> dict[str, GradientSample]:
        """Metric → the gradients in inclusive ranges of timesteps. Holds cells × folds vectors of all parameters."""
        found = [self.measured(cell) for cell in cells]
        squares = np.stack([lengths for lengths, _ in found], 1)
        means = torch.cat([vectors for _, vectors in found])
        shape = (len(cells), self.meter.folds) * 2
        flat = torch.cat([scale.flatten().cpu() for scale in self.scales])
        products = (gram(means).numpy(), gram(means.mul_(flat)).numpy())
        return {
            metric: GradientSample(lengths, table.reshape(shape))
            for metric, lengths, table in zip(METRICS, squares, products, strict=True)
        }

    def measured(self, cell: TimestepRange) -> tuple[np.ndarray, Tensor]:
        """Squared lengths [2, F, n] of single images' gradients in a cell, and mean gradients as they are, [F, P]."""
        meter = self.meter
        generator, parameters = numpy_generator(meter.seed, Stream.GRADIENTS, *cell), list(meter.net.parameters())
        torch.manual_seed(int(generator.integers(2**62)))  # dropout's
        singles = meter.drawn(cell, meter.single_images, generator).singles()
        squares = squared_norms_in_both(meter.losses(singles), parameters, self.scales)
        size = meter.mean_images // meter.folds
        folds = (meter.drawn(cell, size, generator) for _ in range(meter.folds))
        return squares.reshape(2, meter.folds, -1).numpy(), flat_gradients(meter.losses(folds), parameters)


def affinity_of(
    net: nn.Module,
    objective: Objective,
    data: PreparedData,
    schedule: NoiseSchedule,
    chosen: MeasuredGradients,
    seed: int,
    chunks: Chunks = UNSTORED,
) -> Affinity:
    """Cosines between mean gradients over cells of equal log-SNR; cells without a timestep are left out.

    Args:
        net, objective: on one device; the network is left asking for gradients.
        data: whose training images are drawn.
        schedule: of all timesteps.
        chosen: how much is measured.
        seed: of all draws.
        chunks: where it is stored, so that it is measured once for all processes and attempts.
    """
    cells = equal_log_snr(schedule, chosen.cells, drop_empty=True)
    meter = GradientMeter(
        net.train().requires_grad_(True),
        objective,
        tensor_of(data.train),
        folds=FOLDS,
        single_images=FOLDS,
        mean_images=chosen.images,
        seed=seed,
        labels=data.train_labels,
    )

    def cosines() -> np.ndarray:
        return meter.sample(cells).moments().cosines

    (found,) = chunks.all({"cosines": Maker((len(cells), len(cells)), cosines)})
    return Affinity(cells, found)
