"""Smoothness of a loss on fixed draws: its sharpest curvature at a point, and its values between two points.

A point is a list of parameters, a direction a list of tensors of the same shapes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from unequal.measures.loss_profile import relative_change
from unequal.timesteps.draws import LowDiscrepancy
from unequal.timesteps.samplers import TimestepSampler, uniform
from unequal.training.batches import Batch, BatchSource
from unequal.training.objectives import Objective

#: Computes a loss of the parameters' present values on fixed data.
Loss = Callable[[], Tensor]
Direction = Sequence[Tensor]


@dataclass(frozen=True)
class FixedLoss:
    """Loss of a network on the same draws (x0, t, ε) at each call: a function of its weights alone.

    Attributes:
        net: called with its present weights.
        objective: one without a state of its own.
        batches: the draws, as many at once as memory allows.
    """

    net: nn.Module
    objective: Objective
    batches: Sequence[Batch]

    def losses(self) -> Tensor:
        """Loss of each draw, [n]."""
        return torch.cat([self.objective(self.net, batch).weighted for batch in self.batches])

    def parts(self) -> list[Loss]:
        """One scalar a batch, whose sum is the mean loss of all draws."""
        return [partial(self.part, batch) for batch in self.batches]

    def part(self, batch: Batch) -> Tensor:
        """A batch's share of the mean loss."""
        draws = sum(len(one.timesteps) for one in self.batches)
        return self.objective(self.net, batch).weighted.sum() / draws


def fixed_batches(
    images: Tensor, timesteps: int, draws: int, batch_size: int, seed: int, flips: bool, device: torch.device
) -> list[Batch]:
    """Draws of training images [N, C, H, W] (uint8) with fresh noise, at timesteps equally spaced over 0 … T−1."""
    source = BatchSource(images, draws, TimestepSampler(uniform(timesteps), draw=LowDiscrepancy()), seed, flips, device)
    return [source.draw(0, slice(first, first + batch_size)) for first in range(0, draws, batch_size)]


@dataclass(frozen=True)
class PowerIteration:
    """Results of k iterations.

    Attributes:
        quotients: Rayleigh quotients vᵀHv of the unit direction v that the iteration began with. The
            first v is random, so the first quotient estimates the mean of all eigenvalues.
        residuals: ‖Hv − (vᵀHv)·v‖. H is symmetric, so an eigenvalue lies no further from the quotient.
        shift: the direction was multiplied by H − shift·1; not 0 where H's eigenvalue of largest
            magnitude is negative, and then that eigenvalue.
    """

    quotients: list[float]
    residuals: list[float]
    shift: float = 0.0

    @property
    def eigenvalue(self) -> float:
        """The last quotient."""
        return self.quotients[-1]


def largest_eigenvalue(
    parts: Sequence[Loss], parameters: Sequence[nn.Parameter], iterations: int, generator: torch.Generator
) -> PowerIteration:
    """The largest eigenvalue of a loss's Hessian, by power iteration on Hessian–vector products.

    Powers of H grow along the eigenvalue of largest magnitude. Where that one is negative, it is taken
    off the diagonal and the iteration repeated: of H − λ_min·1 the largest in magnitude is λ_max − λ_min.

    Args:
        parts: scalars whose sum is the loss; each is differentiated by itself, which bounds the memory.
        parameters: all that the Hessian is over.
        iterations: products of an iteration.
        generator: of the starting direction, on the CPU.
    """
    start = [torch.randn(p.shape, generator=generator, dtype=p.dtype).to(p.device) for p in parameters]

    def product(vector: Direction) -> Direction:
        return hessian_product(parts, parameters, vector)

    found = power_iteration(product, start, iterations)
    if found.eigenvalue >= 0:
        return found
    return power_iteration(product, start, iterations, shift=found.eigenvalue)


def power_iteration(
    product: Callable[[Direction], Direction], start: Direction, iterations: int, shift: float = 0.0
) -> PowerIteration:
    """Multiply a direction by a symmetric matrix minus shift·1 again and again; see PowerIteration."""
    vector = unit_length(start)
    quotients, residuals = [], []
    for _ in range(iterations):
        image = product(vector)
        quotient = float(inner(vector, image))
        quotients.append(quotient)
        residuals.append(length(added(image, -quotient, vector)))
        vector = unit_length(added(image, -shift, vector))
    return PowerIteration(quotients, residuals, shift)


def hessian_product(parts: Sequence[Loss], parameters: Sequence[nn.Parameter], vector: Direction) -> list[Tensor]:
    """H·v as the gradient of (gradient of the loss)ᵀ·v (Pearlmutter 1994)."""
    total = [torch.zeros_like(p) for p in parameters]
    # Fused attention has no second derivative.
    with sdpa_kernel(SDPBackend.MATH):
        for part in parts:
            gradient = torch.autograd.grad(part(), parameters, create_graph=True)
            product = torch.autograd.grad(inner(gradient, vector), parameters)
            total = added(total, 1.0, product)
    return total


def inner(a: Direction, b: Direction) -> Tensor:
    """Scalar product."""
    return torch.stack([(x * y).sum() for x, y in zip(a, b, strict=True)]).sum()


def length(a: Direction) -> float:
    """Euclidean norm."""
    return float(inner(a, a).sqrt())


def added(a: Direction, factor: float, b: Direction) -> list[Tensor]:
    """a + factor·b."""
    return [x + factor * y for x, y in zip(a, b, strict=True)]


def unit_length(a: Direction) -> list[Tensor]:
    """The direction with length 1; one without a length stays as it is."""
    size = length(a)
    return [x / size if size > 0 else x for x in a]


@torch.no_grad()
def losses_on_line(
    losses: Loss, parameters: Sequence[nn.Parameter], start: Direction, end: Direction, points: int
) -> Tensor:
    """Losses of each draw at equally spaced points from one model's parameters to another's, ends included.

    Args:
        losses: [n], of the same draws in every call.
        parameters: moved along the line, and put back where they were.
        start, end: their values at the ends.
        points: two or more.

    Returns:
        [points, n].
    """
    before = [p.clone() for p in parameters]
    found = []
    for share in torch.linspace(0, 1, points).tolist():
        move(parameters, [torch.lerp(a, b, share) for a, b in zip(start, end, strict=True)])
        found.append(losses())
    move(parameters, before)
    return torch.stack(found)


def move(parameters: Sequence[nn.Parameter], values: Direction) -> None:
    """Give parameters other values, in place."""
    for parameter, value in zip(parameters, values, strict=True):
        parameter.copy_(value)


@dataclass(frozen=True)
class Barrier:
    """Place and relative height of the loss's largest rise above the straight line between its ends.

    Attributes:
        share: place on the line, 0 … 1.
        height: loss there over (1 − share)·L(0) + share·L(1), minus 1; 0 where it rises nowhere.
        stderr: standard error of the height over the draws, paired.
    """

    share: float
    height: float
    stderr: float


def barrier(losses: Tensor) -> Barrier:
    """The barrier of losses on a line, [points, n] (after Frankle et al. 2020, as a share of the ends' loss)."""
    table = losses.double().cpu().numpy()
    found = []
    for i, on_line in enumerate(table):
        share = i / (len(table) - 1)
        between = (1 - share) * table[0] + share * table[-1]
        found.append(Barrier(share, *relative_change(between[None], on_line[None])))
    return max(found, key=lambda one: one.height)
