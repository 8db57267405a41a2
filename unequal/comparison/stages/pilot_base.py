"""Train the base of a block of the pilot for a share of the images, and measure it at half of them and at the end."""

from unequal.comparison.measuring import Measuring, MeasuringSettings
from unequal.comparison.settings import shortened
from unequal.comparison.training import Block, NetworkSettings, costs_of, half_and_end, with_half
from unequal.pipeline.stage import Run, stage
from unequal.settings.recipe import Recipe
from unequal.settings.strict import key
from unequal.training.results import write_models


class Settings(MeasuringSettings, NetworkSettings):
    share: float = key("pilot.share")
    recipe: Recipe = key("recipes.{base}")


@stage(Settings)
def main(run: Run, settings: Settings, base: str, block: int) -> None:
    """Train and measure a base."""
    measuring = Measuring.of(run, settings, block, "choice")
    short = with_half(shortened(settings.recipe, settings.share))
    outcome = Block(settings, measuring.data, block).train(run, short, base)
    folder = run.output(f"artifacts/pilot/{base}/block_{block}")
    write_models(folder, outcome)
    figures = measuring.path(*half_and_end(folder, short), base)
    costs = {"costs": figures["costs"] | costs_of(outcome)}
    run.metrics(f"results/pilot/{base}/block_{block}.json", {"block": block} | figures | costs)
