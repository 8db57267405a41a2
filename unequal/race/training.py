"""Trainings of a race: all variants of a block share weights, images, draws of timesteps, and noise."""

from collections.abc import Mapping
from typing import Any

from unequal.comparison.settings import Try, shortened
from unequal.comparison.training import NetworkSettings, with_batches
from unequal.data.prepared import PreparedData
from unequal.errors import Diverged
from unequal.randomness import torch_seed
from unequal.runtime.workspace import Workspace
from unequal.settings.race import Arm, draws_from_slots, with_slots
from unequal.settings.recipe import Recipe
from unequal.settings.strict import key
from unequal.timesteps.partition import Partition
from unequal.training.train import Outcome, TrainingJob, train_fresh


class ArmSettings(NetworkSettings):
    """Keys of params.yaml that say how a variant is trained."""

    recipe: Recipe = key("race.recipe")
    arm: Arm = key("race.arms.{arm}")


def recipe_at(recipe: Recipe, rate: float, share: float = 1.0) -> Recipe:
    """Change a recipe to a factor of its learning rate and a share of its images."""
    return shortened(recipe, share, Try(lr=rate * recipe.optimizer.lr))


def with_measured_slots(recipe: Recipe, slots: Mapping[str, Any]) -> Recipe:
    """Insert the control's slots into a variant's recipe if it draws from slots.

    Raises:
        Diverged: the control's training has collapsed, so that there are no slots.
    """
    if not draws_from_slots(recipe):
        return recipe
    if slots["collapsed"] is not None:
        raise Diverged(f"the control's first training has no slots ({slots['collapsed']})")
    return with_slots(recipe, Partition(slots["slots"], "slots"))


def train_arm(
    workspace: Workspace, settings: ArmSettings, recipe: Recipe, data: PreparedData, name: str, block: int
) -> Outcome:
    """Train a variant by its recipe, from fresh weights. Raises Diverged where the loss becomes NaN or infinite."""
    job = TrainingJob(name, recipe, settings.training, data, torch_seed(block))
    if settings.arm.batch_size is not None:
        job = with_batches(job, settings.arm.batch_size)
    return train_fresh(workspace, job, settings.network, settings.schedule)
