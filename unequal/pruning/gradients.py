"""Gradients of the denoising loss, which importance by Taylor expansion reads; they are left in the network."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from unequal.pruning.target import Target
from unequal.randomness import Stream, numpy_generator
from unequal.settings.pruning import Timesteps
from unequal.timesteps.partition import TimestepSet
from unequal.training.batches import draw_at


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
        (objective(target.net, batch).weighted.sum() / images).backward()


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
        losses = objective(target.net, batch).weighted.reshape(len(part), images).mean(1)
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
    """How many of these losses [n] in a row lie above a share of the running maximum, which begins with `largest`."""
    maxima = losses.cummax(0).values.clamp(min=largest)
    return int((losses > threshold * maxima).long().cumprod(0).sum())
