"""Train the base model on all timesteps, or take a pretrained one."""

from unequal.data.prepared import PreparedData
from unequal.pipeline.stage import Run, stage
from unequal.settings.network import AnyNetwork
from unequal.settings.recipe import Recipe
from unequal.settings.schedule import Schedule
from unequal.settings.strict import StageSettings, key
from unequal.settings.training import Training
from unequal.training.results import write_results
from unequal.training.train import TrainingJob, take_over, train_fresh


class Settings(StageSettings):
    seed: int
    schedule: Schedule
    network: AnyNetwork
    training: Training
    recipe: Recipe = key("recipes.base")


@stage(Settings, shared=True)
def main(run: Run, settings: Settings) -> None:
    """Train the base model."""
    run.source("network")
    data = PreparedData.open(run.input("artifacts/data"))
    job = TrainingJob("base", settings.recipe, settings.training, data, settings.seed, pictures=True)
    made = train_fresh if settings.network.pretrained is None else take_over
    write_results(run, made(run, job, settings.network, settings.schedule))
