"""Prune the base to the FLOPs limit of one group of timesteps."""

from unequal.data.prepared import PreparedData
from unequal.experts.prune import PruningJob, produce
from unequal.pipeline.stage import Run, stage
from unequal.settings.pruning import Pruning
from unequal.settings.strict import StageSettings, key
from unequal.training.timestep_files import read_groups


class Settings(StageSettings):
    seed: int
    method: Pruning = key("pruning.{method}")


@stage(Settings)
def main(run: Run, settings: Settings, method: str, group: int) -> None:
    """Prune the base for a group, counted from 0 at the data end, by the method of that name."""
    data = PreparedData.open(run.input("artifacts/data"))
    base, groups = run.input("artifacts/models/base"), read_groups(run.input("artifacts/groups.json"))
    run.source(f"pruning/{method}")
    chosen = groups.numbered(group)
    produce(run, PruningJob(method, settings.method, base, data, chosen, len(groups.groups), settings.seed))
