"""Carry an arm's plan out on the base of a block of the pilot, with everything that is tried of it."""

from unequal.comparison.measuring import Measuring, MeasuringSettings
from unequal.comparison.settings import Try, arm_seed, shortened_plan
from unequal.comparison.training import own_costs, train_plan
from unequal.data.prepared import PreparedData
from unequal.evaluation.fidelity import BuiltExtractor
from unequal.experts.plan import ExpertsJob
from unequal.pipeline.stage import Run, stage
from unequal.settings.groups import Plan
from unequal.settings.strict import key
from unequal.settings.training import Training
from unequal.workspace import Nested


class Settings(MeasuringSettings):
    """Keys of params.yaml that this stage reads."""

    tries: dict[str, Try] = key("pilot.tries")
    share: float = key("pilot.share")
    training: Training
    plan: Plan = key("plans.{arm}")


@stage(Settings)
def main(run: Run, settings: Settings, arm: str, block: int) -> None:
    """Train and measure an arm once for each try."""
    data = PreparedData.open(run.input("artifacts/data"))
    extractor = BuiltExtractor.load(run.input("artifacts/extractor"))
    base = run.input(f"artifacts/pilot/base/block_{block}")
    run.source(f"plans/{arm}")
    measuring = Measuring(run, settings, data, extractor, block, "choice")
    tried = {}
    for label, one in settings.tries.items():
        plan = shortened_plan(settings.plan, settings.share, one)
        # Draws of its own: of trainings that share them, less than a training's scatter would be seen.
        name = f"{arm}_{label}"
        job = ExpertsJob(plan, f"{name}/block_{block}", base, data, settings.training, arm_seed(block, name))
        folder = run.work / f"{name}_models"
        costs = own_costs(train_plan(Nested(run, name), job, folder))
        figures = measuring.figures(folder, name)
        tried[label] = figures | {"lr": plan.recipe.optimizer.lr, "costs": figures["costs"] | costs}
    run.metrics(f"results/pilot/{arm}/block_{block}.json", {"arm": arm, "block": block, "tries": tried})


if __name__ == "__main__":
    main()
