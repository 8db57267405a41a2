"""Train the base further by another recipe, at equal compute."""

from unequal.data.prepared import PreparedData
from unequal.models.folder import load_record
from unequal.pipeline.stage import Run, stage
from unequal.settings.recipe import Recipe
from unequal.settings.strict import StageSettings, key
from unequal.settings.training import Training
from unequal.training.initialisation import Start
from unequal.training.results import write_results
from unequal.training.timestep_files import read_sampler
from unequal.training.train import TrainingJob, train_further


class Settings(StageSettings):
    seed: int
    training: Training
    recipe: Recipe = key("recipes.{recipe}")


@stage(Settings, shared=True)
def main(run: Run, settings: Settings, recipe: str) -> None:
    """Train a recipe, starting from the base."""
    data = PreparedData.open(run.input("artifacts/data"))
    base = run.input("artifacts/models/base")
    schedule = load_record(base).spec.noise_schedule()
    sampler = read_sampler(run.input(f"artifacts/samplers/{recipe}.json"), schedule)
    job = TrainingJob(recipe, settings.recipe, settings.training, data, settings.seed, pictures=True)
    write_results(run, train_further(run, job, Start.of_model(base), sampler))
