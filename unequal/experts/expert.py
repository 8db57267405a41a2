"""The model of one group of timesteps: the base or its pruned form, trained on within the group."""

from pathlib import Path

from unequal.artifacts.partitions import NumberedGroup
from unequal.models.pruned import load_any_model
from unequal.training.initialisation import Scope, Start
from unequal.training.train import Outcome, TrainingJob, train_on
from unequal.workspace.protocol import Workspace


def train_expert(
    workspace: Workspace,
    job: TrainingJob,
    model: Path,
    group: NumberedGroup,
    groups: int,
    fresh_weights: bool = False,
) -> Outcome:
    """Train the expert of a group.

    Args:
        workspace, job: where, and what is asked.
        model: folder of what it begins with, pruned or not.
        group, groups: whose timesteps it is for, and of how many.
        fresh_weights: keep the architecture alone; nothing is inherited then.

    Raises:
        UserError: the model cannot be loaded, or it, the recipe and the data are not made for each other.
    """
    start = Start.of_model(model, Scope(group.range, group.group, groups), load_any_model)
    return train_on(workspace, job, start.renewed(job.seed) if fresh_weights else start)
