"""Carry a variant's plan out on the base of a block."""

from unequal.comparison.settings import arm_seed, shortened_plan
from unequal.comparison.training import ChosenSettings, train_plan
from unequal.data.prepared import PreparedData
from unequal.experts.plan import ExpertsJob
from unequal.pipeline.stage import Run, stage
from unequal.settings.groups import Plan
from unequal.settings.strict import key
from unequal.settings.training import Training


class Settings(ChosenSettings):
    training: Training
    plan: Plan = key("plans.{arm}")


@stage(Settings)
def main(run: Run, settings: Settings, arm: str, block: int) -> None:
    """Make the models of an arm within a block."""
    data = PreparedData.open(run.input("artifacts/data"))
    base = run.input(f"artifacts/models/base/block_{block}")
    run.source(f"plans/{arm}")
    folder = run.output(f"artifacts/models/{arm}/block_{block}")
    name, seed = f"{arm}/block_{block}", arm_seed(block, arm)
    plan = shortened_plan(settings.plan, 1.0, settings.tried(arm))
    costs = train_plan(run, ExpertsJob(plan, name, base, data, settings.training, seed), folder)
    run.metrics(f"results/trainings/{arm}/block_{block}.json", costs)
