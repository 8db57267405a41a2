"""Train the fresh weights of a block of the pilot with an arm's batches, once for each rate that is tried."""

from studies.blocks.measuring import Measuring, MeasuringSettings
from studies.blocks.settings import Try, arm_seed, shortened
from studies.blocks.training import costs_of, half_and_end, with_half
from studies.small_batches.training import ArmSettings, job_of, train_arm
from unequal.data.prepared import PreparedData
from unequal.evaluation.fidelity import BuiltExtractor
from unequal.pipeline.stage import Run, stage
from unequal.settings.strict import key
from unequal.training.results import write_models
from unequal.workspace.protocol import Nested


class Settings(MeasuringSettings, ArmSettings):
    """Keys of params.yaml that this stage reads."""

    tries: dict[str, Try] = key("pilot.tries")
    share: float = key("pilot.share")


@stage(Settings)
def main(run: Run, settings: Settings, arm: str, block: int) -> None:
    """Train and measure an arm once for each try, at half and at the end of each training."""
    data = PreparedData.open(run.input("artifacts/data"))
    extractor = BuiltExtractor.load(run.input("artifacts/extractor"))
    measuring = Measuring(run, settings, data, extractor, block, "choice")
    tried = {}
    for label, one in settings.tries.items():
        recipe = with_half(shortened(settings.recipe, settings.share, one))
        name = f"{arm}_{label}"  # with draws of its own, as in the study
        seed = arm_seed(block, name)
        job = job_of(f"{name}/block_{block}", recipe, settings.arm, settings.training, data, seed)
        outcome = train_arm(Nested(run, name), job, settings, block)
        folder = run.work / f"{name}_models"
        write_models(folder, outcome)
        figures = measuring.path(*half_and_end(folder, recipe), name)
        tried[label] = figures | {"lr": recipe.optimizer.lr, "costs": figures["costs"] | costs_of(outcome)}
    run.metrics(f"results/pilot/{arm}/block_{block}.json", {"arm": arm, "block": block, "tries": tried})


if __name__ == "__main__":
    main()
