"""Train the fresh weights of a block by an arm's recipe."""

from unequal.comparison.settings import OTHERS, Try, arm_seed, shortened
from unequal.comparison.training import costs_of, emphasis_of, made_by, train_weights
from unequal.data.prepared import PreparedData
from unequal.pipeline.stage import Run, stage
from unequal.settings.network import AnyNetwork
from unequal.settings.recipe import Recipe
from unequal.settings.schedule import Schedule
from unequal.settings.strict import StageSettings, key
from unequal.settings.training import Training
from unequal.settings.values import Name
from unequal.training.results import write_results
from unequal.training.train import TrainingJob


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    schedule: Schedule
    network: AnyNetwork
    training: Training
    recipe: Recipe = key("recipes.{arm}")
    tries: dict[str, Try] = key("pilot.tries")
    chosen: dict[Name, Name] = key("pilot.chosen")


@stage(Settings, shared=True)
def main(run: Run, settings: Settings, arm: str, block: int) -> None:
    """Train an arm within a block."""
    data = PreparedData.open(run.input("artifacts/data"))
    recipe = shortened(settings.recipe, 1.0, settings.tries[settings.chosen.get(arm) or settings.chosen[OTHERS]])
    job = TrainingJob(f"{arm}/block_{block}", recipe, settings.training, data, arm_seed(block, arm))
    outcome = train_weights(run, job, block, settings.network, settings.schedule)
    write_results(run, outcome)
    run.metrics(
        f"results/trainings/{arm}/block_{block}.json",
        made_by(settings.schedule, settings.network, settings.training, recipe)
        | costs_of(outcome)
        | emphasis_of(outcome),
    )


if __name__ == "__main__":
    main()
