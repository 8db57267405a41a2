"""Train the best variant and its control again within a fresh block, and measure both."""

from typing import Any

from unequal.comparison.confirmation import CONTROL, FIRST, First, trained_again
from unequal.comparison.measuring import Measuring, MeasuringSettings
from unequal.comparison.training import NetworkSettings
from unequal.pipeline.stage import Run, stage
from unequal.runtime.files import read_json
from unequal.settings.strict import validate


class Settings(MeasuringSettings, NetworkSettings):
    """Keys of params.yaml that this stage reads."""


@stage(Settings)
def main(run: Run, settings: Settings, block: int) -> None:
    """Train and measure both within a block."""
    measuring = Measuring.of(run, settings, block)
    first = validate(First, read_json(path := run.input("results/confirm/first.json")), path)
    pair: dict[str, Any] = {
        place: trained_again(measuring, settings, place, one, first.base)
        for place, one in ((FIRST, first.first), (CONTROL, first.control))
    }
    run.metrics(f"results/confirm/block_{block}.json", pair)
