"""Train an arm of the pilot from the fresh weights of a block, and measure it by the path of its training."""

from studies.blocks.measuring import Measuring, MeasuringSettings
from studies.blocks.path import in_short
from studies.blocks.settings import Try, arm_seed, shortened
from studies.blocks.training import costs_of, half_and_end, train_weights, with_half
from unequal.data.prepared import PreparedData
from unequal.evaluation.fidelity import BuiltExtractor
from unequal.pipeline.stage import Run, stage
from unequal.settings.network import AnyNetwork
from unequal.settings.recipe import Recipe
from unequal.settings.schedule import Schedule
from unequal.settings.strict import key
from unequal.settings.training import Training
from unequal.training.results import write_models
from unequal.training.train import TrainingJob
from unequal.workspace.protocol import Nested


class Settings(MeasuringSettings):
    """Keys of params.yaml that this stage reads."""

    tries: dict[str, Try] = key("pilot.tries")
    share: float = key("pilot.share")
    schedule: Schedule
    network: AnyNetwork
    training: Training
    recipe: Recipe = key("recipes.{arm}")


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
        job = TrainingJob(f"{name}/block_{block}", recipe, settings.training, data, arm_seed(block, name))
        outcome = train_weights(Nested(run, name), job, block, settings.network, settings.schedule)
        folder = run.work / f"{name}_models"
        write_models(folder, outcome)
        figures = in_short(measuring, *half_and_end(folder, recipe), name, len(settings.recipe.snapshots))
        tried[label] = figures | {"lr": recipe.optimizer.lr, "costs": figures["costs"] | costs_of(outcome)}
    run.metrics(f"results/pilot/{arm}/block_{block}.json", {"arm": arm, "block": block, "tries": tried})


if __name__ == "__main__":
    main()
