"""Bring the images into one array: uint8, NCHW, shuffled and split."""

from unequal.data.preparation import prepare
from unequal.pipeline.stage import Run, stage
from unequal.settings.data import Data
from unequal.settings.strict import StageSettings


class Settings(StageSettings):
    seed: int
    data: Data


@stage(Settings)
def main(run: Run, settings: Settings, data: str = "data") -> None:
    """Prepare the data set, in a folder of that name below artifacts."""
    run.source("data")
    facts = prepare(settings.data, settings.seed, run.output(f"artifacts/{data}"), run.work / "parts")
    run.metrics(f"results/metrics/{data}.json", facts)
