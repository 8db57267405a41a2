"""Train the fresh weights of a block of the pilot by a variant's recipe, once for each try."""

from unequal.comparison.measuring import Measuring, MeasuringSettings
from unequal.comparison.settings import Try
from unequal.comparison.training import Block, FreshSettings, try_fresh
from unequal.pipeline.stage import Run, stage
from unequal.settings.strict import key


class Settings(MeasuringSettings, FreshSettings):
    tries: dict[str, Try] = key("pilot.tries")
    share: float = key("pilot.share")


@stage(Settings)
def main(run: Run, settings: Settings, arm: str, block: int) -> None:
    """Train and measure an arm once for each try, at half and at the end of each training."""
    measuring = Measuring.of(run, settings, block, "choice")
    trainings = Block(settings, measuring.data, block, settings.batch_sizes.get(arm), settings.profile)
    tried = try_fresh(measuring, trainings.train, arm, settings.recipe, settings.tries, settings.share)
    run.metrics(f"results/pilot/{arm}/block_{block}.json", {"arm": arm, "block": block, "tries": tried})
