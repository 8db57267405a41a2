"""Which objective trains a model with one head: by what it predicts, what it learns of the variance, and its task."""

from typing import Protocol

from unequal.diffusion.schedule import NoiseSchedule
from unequal.training.conditional import Task, for_task
from unequal.training.hybrid import Hybrid
from unequal.training.objective import Objective, SingleHead


class Model(Task, Protocol):
    """What a model says about itself; its record does, and the job of training it."""

    @property
    def prediction(self) -> str: ...
    @property
    def learned_variance(self) -> bool: ...


def objective_for(model: Model, schedule: NoiseSchedule, weight: str = "none", gamma: float | None = None) -> Objective:
    """The loss that trains a model.

    Args:
        model: with one head.
        schedule: on the training device.
        weight, gamma: loss weight; see `unequal.timesteps.weights`.
    """
    kind = Hybrid if model.learned_variance else SingleHead
    return for_task(kind(model.prediction, schedule, weight, gamma), model)
