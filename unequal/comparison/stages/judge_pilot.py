"""Estimate from the pilot what the comparison can detect and how long it takes."""

from unequal.comparison.pilot import pilot_document
from unequal.comparison.pilot_results import read_arms, read_bases
from unequal.comparison.settings import Comparison, Pilot
from unequal.comparison.speed import piloted
from unequal.pipeline.stage import Run, stage
from unequal.settings.strict import StageSettings


class Settings(StageSettings):
    comparison: Comparison
    pilot: Pilot


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write the pilot's judgement."""
    folder, comparison, pilot = run.input("results/pilot"), settings.comparison, settings.pilot
    bases = read_bases(folder, pilot) if comparison.arms.bases else []
    arms = read_arms(folder, pilot)
    if (speed := comparison.speed) is not None:
        # Any training of the block serves as baseline: it shifts all others equally, which is an effect of the block.
        references = [next(iter(block.values())) for block in arms[speed.baseline]]
        for endpoint in speed.by:
            pairs = {arm: zip(own, references, strict=True) for arm, own in arms.items()}
            arms = {arm: [piloted(*pair, endpoint) for pair in own] for arm, own in pairs.items()}
    run.metrics("results/pilot.json", pilot_document(comparison, pilot, bases, arms))
