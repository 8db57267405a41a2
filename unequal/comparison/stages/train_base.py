"""Train the base of a block from fresh weights."""

from unequal.comparison.training import Block, NetworkSettings, costs_of
from unequal.data.prepared import PreparedData
from unequal.pipeline.stage import Run, stage
from unequal.settings.recipe import Recipe
from unequal.settings.strict import key
from unequal.training.results import write_results


class Settings(NetworkSettings):
    recipe: Recipe = key("recipes.{base}")


@stage(Settings, shared=True)
def main(run: Run, settings: Settings, base: str, block: int) -> None:
    """Train a base."""
    data = PreparedData.open(run.input("artifacts/data"))
    outcome = Block(settings, data, block).train(run, settings.recipe, base)
    write_results(run, outcome)
    run.metrics(f"results/trainings/{base}/block_{block}.json", costs_of(outcome))
