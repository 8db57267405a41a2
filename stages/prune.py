"""Prune the base to the FLOPs limit of one group of timesteps."""

from unequal.artifacts.partitions import read_groups
from unequal.data.pixels import tensor_of
from unequal.data.prepared import PreparedData
from unequal.models.folder import load_model
from unequal.pipeline.stage import Run, stage
from unequal.pruning.prune import PruningJob, produce
from unequal.settings.pruning import Pruning
from unequal.settings.strict import StageSettings, key


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    seed: int
    method: Pruning = key("pruning.{method}")


@stage(Settings)
def main(run: Run, settings: Settings, method: str, group: int) -> None:
    """Prune the base for a group, counted from 0 at the data end, by the method of that name."""
    data = PreparedData.open(run.input("artifacts/data"))
    net, base = load_model(run.input("artifacts/models/base"))
    run.source(f"pruning/{method}")
    groups = read_groups(run.input("artifacts/groups.json"))
    job = PruningJob(
        name=f"{method}/group_{group}",
        method=settings.method,
        net=net,
        base=base,
        images=tensor_of(data.train),
        group=groups.numbered(group),
        groups=len(groups.groups),
        seed=settings.seed,
        labels=data.train_labels,
    )
    produce(run, job)


if __name__ == "__main__":
    main()
