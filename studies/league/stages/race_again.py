"""Train the first arm and the control from the first weights of a fresh block, and measure both."""

from typing import Any

from studies.league.standings import First
from unequal.comparison.confirmation import CONTROL, FIRST
from unequal.comparison.measuring import Measuring, MeasuringSettings
from unequal.comparison.settings import arm_seed
from unequal.comparison.training import costs_of, made_by, train_weights
from unequal.data.prepared import PreparedData
from unequal.evaluation.fidelity import BuiltExtractor
from unequal.pipeline.stage import Run, stage
from unequal.settings.network import AnyNetwork
from unequal.settings.schedule import Schedule
from unequal.settings.training import Training
from unequal.training.results import write_models
from unequal.training.train import TrainingJob
from unequal.workspace import Nested


class Settings(MeasuringSettings):
    """Keys of params.yaml that this stage reads."""

    schedule: Schedule
    network: AnyNetwork
    training: Training


@stage(Settings)
def main(run: Run, settings: Settings, block: int) -> None:
    """Train and measure both within a block."""
    data = PreparedData.open(run.input("artifacts/data"))
    measuring = Measuring(run, settings, data, BuiltExtractor.load(run.input("artifacts/extractor")), block)
    named = First.load(run.input("results/first.json"))
    told: dict[str, Any] = {}
    for place, one in ((FIRST, named.first), (CONTROL, named.control)):
        arm, recipe = one.arm, one.recipe
        job = TrainingJob(f"{arm}/block_{block}", recipe, settings.training, data, arm_seed(block, arm))
        outcome = train_weights(Nested(run, place), job, block, settings.network, settings.schedule)
        write_models(folder := run.work / f"{place}_models", outcome)
        figures = measuring.figures(folder, place)
        told[place] = {"arm": arm, "block": block} | figures | {"costs": figures["costs"] | costs_of(outcome)}
        told[place] |= made_by(settings.schedule, settings.network, settings.training, recipe)
    run.metrics(f"results/again/block_{block}.json", told)


if __name__ == "__main__":
    main()
