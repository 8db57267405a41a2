"""Train the model of one group from scratch, with the architecture of its pruned expert and all experts' compute."""

import torch

from unequal.data.prepared import PreparedData
from unequal.models.artifact import load_model, load_pruning
from unequal.models.flops import images_affordable
from unequal.models.pruned import reinitialise
from unequal.pipeline.stage import Run, stage
from unequal.randomness import Stream, torch_seed
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
    base: Recipe = key("recipes.base")
    expert: Recipe = key("recipes.expert")


@stage(Settings)
def main(run: Run, settings: Settings, group: int) -> None:
    """Train a group's model in a single stage: as the base is trained, on the expert's timesteps."""
    data = PreparedData.open(run.input("artifacts/data"))
    folder = run.input(f"artifacts/pruned/expert/group_{group}")
    groups = read_groups(run.input("artifacts/groups.json"))
    net, pruned = load_model(folder)
    torch.manual_seed(torch_seed(settings.seed, Stream.INITIAL_WEIGHTS, group))
    reinitialise(net)
    # The base's training is shared by all experts: each group's model gets its part of that compute.
    images = settings.expert.images + images_affordable(pruned.inherited_flops / len(groups.groups), pruned.macs)
    recipe = settings.base.model_copy(
        update={"images": images, "sampler": settings.expert.sampler, "snapshots": ()},
    )
    first, last = groups.of(group).first, groups.of(group).last
    drawn = widened(first, last, settings.expert.overlap, pruned.timesteps)
    start = Start(
        net,
        pruned.noise_schedule(),
        removals=load_pruning(folder),
        first=first,
        last=last,
        group=group,
        groups=len(groups.groups),
        enlargement=pruned.enlargement,
        learned_variance=pruned.learned_variance,
    )
    sampler = build_sampler("slot", pruned.timesteps, slot=drawn)
    name = f"experts_single_stage/group_{group}"
    produce(run, Job(name, start, recipe, settings.training, sampler, data, settings.seed))


if __name__ == "__main__":
    main()
