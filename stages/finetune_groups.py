"""Fine-tune one group's expert on the group's timesteps, from the base or from its pruned form.

Two stages of dvc.yaml run it: `finetune_unpruned` trains the base further on each group, `finetune_groups` the base
that `prune` has pruned for that group. They differ in nothing else.
"""

from typing import Literal

from unequal.data.prepared import PreparedData
from unequal.experts.plan import train_expert
from unequal.pipeline.stage import Run, stage
from unequal.settings.recipe import RangeRecipe
from unequal.settings.strict import StageSettings, key
from unequal.settings.training import Training
from unequal.training.results import write_results
from unequal.training.timestep_files import read_groups
from unequal.training.train import TrainingJob


class Settings(StageSettings):
    seed: int
    training: Training
    recipe: RangeRecipe = key("recipes.expert")


@stage(Settings, shared=True)
def main(run: Run, settings: Settings, architecture: Literal["unpruned", "pruned"], group: int) -> None:
    """Fine-tune the `unpruned` or `pruned` expert of a group, counted from 0 at the data end."""
    data = PreparedData.open(run.input("artifacts/data"))
    folder = run.input(
        "artifacts/models/base" if architecture == "unpruned" else f"artifacts/pruned/expert/group_{group}"
    )
    recipe = settings.recipe
    if architecture == "pruned" and recipe.pruned_images is not None:
        recipe = recipe.model_copy(update={"images": recipe.pruned_images, "pruned_images": None})
    groups = read_groups(run.input("artifacts/groups.json"))
    job = TrainingJob(
        f"experts_{architecture}/group_{group}", recipe, settings.training, data, settings.seed, pictures=True
    )
    write_results(run, train_expert(run, job, folder, groups.numbered(group), len(groups.groups)))
