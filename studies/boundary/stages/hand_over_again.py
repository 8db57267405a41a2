"""Carry the first plan and the joint model's out on the base of a fresh block, and measure both."""

from typing import Any

from studies.boundary.first import First
from unequal.comparison.confirmation import CONTROL, FIRST
from unequal.comparison.measuring import Measuring, MeasuringSettings
from unequal.comparison.settings import arm_seed
from unequal.comparison.training import made_by, own_costs, train_plan
from unequal.data.prepared import PreparedData
from unequal.evaluation.fidelity import BuiltExtractor
from unequal.experts.plan import ExpertsJob
from unequal.pipeline.stage import Run, stage
from unequal.settings.training import Training
from unequal.workspace import Nested


class Settings(MeasuringSettings):
    """Keys of params.yaml that this stage reads."""

    training: Training


@stage(Settings)
def main(run: Run, settings: Settings, block: int) -> None:
    """Train and measure both within a block."""
    data = PreparedData.open(run.input("artifacts/data"))
    measuring = Measuring(run, settings, data, BuiltExtractor.load(run.input("artifacts/extractor")), block)
    base, named = run.input(f"artifacts/models/base/block_{block}"), First.load(run.input("results/first.json"))
    told: dict[str, Any] = {}
    for place, one in ((FIRST, named.first), (CONTROL, named.control)):
        arm = one.arm
        job = ExpertsJob(one.plan, f"{arm}/block_{block}", base, data, settings.training, arm_seed(block, arm))
        costs = own_costs(train_plan(Nested(run, place), job, folder := run.work / f"{place}_models"))
        figures = measuring.figures(folder, place)
        told[place] = {"arm": arm, "block": block} | figures | {"costs": figures["costs"] | costs}
        told[place] |= made_by(settings.training, one.plan)
    run.metrics(f"results/again/block_{block}.json", told)


if __name__ == "__main__":
    main()
