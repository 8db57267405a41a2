"""The objective of a model with one head: by what it predicts, what it learns of the variance, and what it is told."""

from unequal.diffusion.schedule import NoiseSchedule
from unequal.models.spec import ModelSpec
from unequal.training.objectives.conditioned import conditioned
from unequal.training.objectives.hybrid import Hybrid
from unequal.training.objectives.objective import Objective
from unequal.training.objectives.single_head import SingleHead


def objective_for(
    spec: ModelSpec, schedule: NoiseSchedule, weight: str = "none", gamma: float | None = None
) -> Objective:
    """The loss that trains a model.

    Args:
        spec: of a model with one head.
        schedule: its own, on the training device.
        weight, gamma: loss weight; see `unequal.timesteps.weights`.
    """
    kind = Hybrid if spec.variance == "learned" else SingleHead
    return conditioned(kind(spec.prediction, schedule, weight, gamma), spec.condition)
