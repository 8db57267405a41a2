"""Train a replica of the base: fresh weights of a seed, a network of some width."""

from studies.consistency.params import replica, with_width
from unequal.data.prepared import PreparedData
from unequal.pipeline.stage import Run, stage
from unequal.settings.network import UNet2D
from unequal.settings.recipe import Recipe
from unequal.settings.schedule import Schedule
from unequal.settings.strict import StageSettings, key
from unequal.settings.training import Training
from unequal.training.results import write_results
from unequal.training.train import TrainingJob, train_fresh


class Settings(StageSettings):
    schedule: Schedule
    network: UNet2D
    training: Training
    recipe: Recipe = key("recipes.base")


@stage(Settings, shared=True)
def main(run: Run, settings: Settings, width: str, seed: int) -> None:
    """Train a replica; the width is written as channels of each resolution, as in 16-32."""
    data = PreparedData.open(run.input("artifacts/data"))
    job = TrainingJob(replica(width, seed), settings.recipe, settings.training, data, seed)
    write_results(run, train_fresh(run, job, with_width(settings.network, width), settings.schedule))
