"""Prune the base for all its timesteps, to a share of its FLOPs: pruning alone (paper 3, Table V)."""

from unequal.data.pixels import tensor_of
from unequal.data.prepared import PreparedData
from unequal.models.artifact import load_model
from unequal.pipeline.stage import Run, stage
from unequal.pruning.run import Job, produce
from unequal.settings.pruning import Pruning
from unequal.settings.strict import StageSettings, key


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    seed: int
    ratio: float = key("base_pruning.ratio")
    method: Pruning = key("pruning.{method}")


@stage(Settings)
def main(run: Run, settings: Settings, method: str) -> None:
    """Prune the base by the method of that name."""
    data = PreparedData.open(run.input("artifacts/data"))
    net, base = load_model(run.input("artifacts/models/base"))
    images = tensor_of(data.train)
    produce(run, Job(f"{method}/base", settings.method, net, base, images, settings.ratio, settings.seed))


if __name__ == "__main__":
    main()
