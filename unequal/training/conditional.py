"""Training of networks that are told more than a noisy image and its timestep: any objective, with that added."""

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from unequal.diffusion.super_resolution import blurred
from unequal.training.batches import Batch
from unequal.training.objective import Losses, Network, Objective, Output


class Task(Protocol):
    """What a model is told: its record says so, and the job of training it."""

    @property
    def enlargement(self) -> int | None: ...
    @property
    def classes(self) -> int | None: ...


def for_task(objective: Objective, task: Task) -> Objective:
    """An objective as it is for unconditional networks, and made conditional for the others."""
    if task.enlargement is not None:
        return Enlarging(objective, task.enlargement)
    return objective if task.classes is None else ClassConditional(objective)


class Conditional(Objective):
    """An objective whose network is told something of the batch."""

    def __init__(self, objective: Objective) -> None:
        super().__init__()
        self.objective = objective

    @abstractmethod
    def told(self, net: Network, batch: Batch) -> Network:
        """The network, with what it may know of a batch."""

    def forward(self, net: Network, batch: Batch) -> Losses:
        return self.objective(self.told(net, batch), batch)

    def end_step(self, total: Callable[[Tensor], Tensor]) -> None:
        self.objective.end_step(total)

    def statistics(self) -> dict[str, np.ndarray]:
        return self.objective.statistics()


class Enlarging(Conditional):
    """An objective whose network also sees the images of the batch at a factor-th of their resolution."""

    def __init__(self, objective: Objective, factor: int) -> None:
        super().__init__(objective)
        self.factor = factor

    def told(self, net: Network, batch: Batch) -> Network:
        return partial(beside, net, blurred(batch.x0, self.factor))


class ClassConditional(Conditional):
    """An objective whose network is told the labels of the batch."""

    def told(self, net: Network, batch: Batch) -> Network:
        return partial(labelled, net, batch.labels)


def beside(net: Network, condition: Tensor, sample: Tensor, timestep: Tensor) -> Output:
    """A network's answer to noisy images, with a condition of their shape as further channels."""
    return net(torch.cat([sample, condition], dim=1), timestep)


def labelled(net: Callable[..., Output], labels: Tensor | None, sample: Tensor, timestep: Tensor) -> Output:
    """A class-conditional network's answer to noisy images of these classes."""
    return net(sample, timestep, class_labels=labels)
