"""Fine-tune one group's expert on the group's timesteps, from the base or from its pruned form."""

from typing import Literal

from unequal.data.prepared import PreparedData
from unequal.models.artifact import load_model, load_pruning
from unequal.pipeline.stage import Run, stage
from unequal.ranges import read_groups
from unequal.settings.recipe import Recipe
from unequal.settings.strict import StageSettings, key
from unequal.settings.training import Training
from unequal.timesteps.partition import widened
from unequal.timesteps.samplers import build_sampler
from unequal.training.run import Job, Start, produce


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    seed: int
    training: Training
    recipe: Recipe = key("recipes.expert")


@stage(Settings, shared=True)
def main(run: Run, settings: Settings, architecture: Literal["unpruned", "pruned"], group: int) -> None:
    """Fine-tune the `unpruned` or `pruned` expert of a group, counted from 0 at the data end."""
    data = PreparedData.open(run.input("artifacts/data"))
    folder = run.input(
        "artifacts/models/base" if architecture == "unpruned" else f"artifacts/pruned/expert/group_{group}"
    )
    groups = read_groups(run.input("artifacts/groups.json"))
    net, parent = load_model(folder)
    first, last = groups.of(group).first, groups.of(group).last
    # Routing goes by group, whatever the expert has seen of its neighbours' timesteps.
    drawn = widened(first, last, settings.recipe.overlap, parent.timesteps)
    sampler = build_sampler("slot", parent.timesteps, slot=drawn)
    start = Start(
        net, parent.noise_schedule(), parent, load_pruning(folder), first, last, group=group, groups=len(groups.groups)
    )
    name = f"experts_{architecture}/group_{group}"
    produce(run, Job(name, start, settings.recipe, settings.training, sampler, data, settings.seed))


if __name__ == "__main__":
    main()
