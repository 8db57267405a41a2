"""The model of one group of timesteps: the base or its pruned form, trained on within the group."""

from dataclasses import replace
from pathlib import Path

from unequal.artifacts.timestep_files import NumberedGroup
from unequal.models.pruned import load_any_model
from unequal.randomness import torch_seed
from unequal.training.initialisation import Scope, Start
from unequal.training.train import Outcome, TrainingJob, train_on
from unequal.workspace import Workspace


def train_expert(
    workspace: Workspace,
    job: TrainingJob,
    model: Path,
    group: NumberedGroup,
    groups: int,
    fresh_weights: bool = False,
) -> Outcome:
    """Train the expert of a group, by draws of its own.

    Of one seed all groups would see the same images and noise, and interleaved ones hardly other timesteps.

    Args:
        workspace, job: where, and what is asked; the seed is that of all groups.
        model: folder of what it begins with, pruned or not.
        group, groups: whose timesteps it is for, and of how many.
        fresh_weights: keep the architecture alone; nothing is inherited then.

    Raises:
        UserError: the model cannot be loaded, or it, the recipe and the data are not made for each other.
    """
    job = replace(job, seed=torch_seed(job.seed, group.group))
    start = Start.of_model(model, Scope(group.range, group.group, groups), load_any_model)
    return train_on(workspace, job, start.renewed(job.seed) if fresh_weights else start)
