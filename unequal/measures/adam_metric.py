"""Gradients as Adam sees them: in the metric in which its steps are those of steepest descent.

For a gradient g, Adam's step without momentum is −lr·D·g with D = 1/(√v̂ + ε), diagonal, v̂ = v/(1 − β₂ⁿ) after n steps
(1412.6980, algorithm 1). By it the loss of other images, with gradient h, changes by −lr·h·D·g in first order: the
product of √D·h and √D·g. So lengths, noise and cosines of gradients scaled by √D say of Adam what those of plain ones
say of gradient descent: a negative cosine means that a step for the one raises the loss of the other.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from unequal.errors import UserError
from unequal.measures.gradient_meter import GradientMeter
from unequal.measures.gradients import GradientSample, flat_gradients, gradients_of, gram
from unequal.randomness import Stream, numpy_generator
from unequal.timesteps.partition import Partition, TimestepRange

#: PyTorch's, which nobody changes here.
EPSILON = 1e-8
#: Metrics in which gradients are measured: as they are, and as Adam scales them.
METRICS = ("raw", "adam")


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
