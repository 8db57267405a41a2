"""Train the fresh weights of a block by a variant's recipe."""

from unequal.comparison.settings import shortened
from unequal.comparison.training import Block, ChosenSettings, FreshSettings, costs_of, learned_weighting
from unequal.data.prepared import PreparedData
from unequal.pipeline.stage import Run, stage
from unequal.training.results import write_results


class Settings(FreshSettings, ChosenSettings):
    """Keys of params.yaml that this stage reads."""


@stage(Settings, shared=True)
def main(run: Run, settings: Settings, arm: str, block: int) -> None:
    """Train an arm within a block."""
    data = PreparedData.open(run.input("artifacts/data"))
    recipe = shortened(settings.recipe, 1.0, settings.tried(arm))
    training = Block(settings, data, block, settings.batch_sizes.get(arm))
    outcome = training.train(run, recipe, arm)
    write_results(run, outcome)
    run.metrics(f"results/trainings/{arm}/block_{block}.json", costs_of(outcome) | learned_weighting(outcome))
