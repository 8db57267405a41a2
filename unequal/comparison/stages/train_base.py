"""Train the base of a block from fresh weights."""

from unequal.comparison.settings import arm_seed
from unequal.comparison.training import costs_of, made_by, train_weights
from unequal.data.prepared import PreparedData
from unequal.pipeline.stage import Run, stage
from unequal.settings.network import AnyNetwork
from unequal.settings.recipe import Recipe
from unequal.settings.schedule import Schedule
from unequal.settings.strict import StageSettings, key
from unequal.settings.training import Training
from unequal.training.results import write_results
from unequal.training.train import TrainingJob


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    schedule: Schedule
    network: AnyNetwork
    training: Training
    recipe: Recipe = key("recipes.base")


@stage(Settings, shared=True)
def main(run: Run, settings: Settings, block: int) -> None:
    """Train a base."""
    data = PreparedData.open(run.input("artifacts/data"))
    job = TrainingJob(f"base/block_{block}", settings.recipe, settings.training, data, arm_seed(block, "base"))
    outcome = train_weights(run, job, block, settings.network, settings.schedule)
    write_results(run, outcome)
    run.metrics(f"results/trainings/base/block_{block}.json", made_by(settings) | costs_of(outcome))


if __name__ == "__main__":
    main()
