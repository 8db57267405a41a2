"""Train a model with three heads (x0, v, ε) from fresh weights, and choose how they are combined."""

from unequal.data.prepared import PreparedData
from unequal.pipeline.stage import Run, stage
from unequal.settings.evaluation import Profile
from unequal.settings.network import AnyNetwork
from unequal.settings.recipe import Recipe
from unequal.settings.schedule import Schedule
from unequal.settings.strict import StageSettings, key
from unequal.settings.training import Training
from unequal.training.mixed_prediction import with_three_heads
from unequal.training.results import write_results
from unequal.training.train import TrainingJob, train_fresh


class Settings(StageSettings):
    seed: int
    schedule: Schedule
    network: AnyNetwork
    training: Training
    profile: Profile
    recipe: Recipe = key("recipes.mixed")


@stage(Settings, shared=True)
def main(run: Run, settings: Settings) -> None:
    """Train the mixed prediction."""
    data = PreparedData.open(run.input("artifacts/data"))
    job = TrainingJob("mixed", settings.recipe, settings.training, data, settings.seed, pictures=True)
    job = with_three_heads(job, settings.network, settings.schedule, settings.profile, run.device)
    write_results(run, train_fresh(run, job, settings.network, settings.schedule))
