"""Train the base of a block of the pilot, for a share of the images, and measure it at half of them and at all."""

from unequal.comparison.measuring import Measuring, MeasuringSettings
from unequal.comparison.settings import arm_seed, shortened
from unequal.comparison.training import costs_of, half_and_end, train_weights, with_half
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


class Settings(MeasuringSettings):
    """Keys of params.yaml that this stage reads."""

    share: float = key("pilot.share")
    schedule: Schedule
    network: AnyNetwork
    training: Training
    recipe: Recipe = key("recipes.base")


@stage(Settings)
def main(run: Run, settings: Settings, block: int) -> None:
    """Train and measure a base."""
    data = PreparedData.open(run.input("artifacts/data"))
    extractor = BuiltExtractor.load(run.input("artifacts/extractor"))
    measuring = Measuring(run, settings, data, extractor, block, "choice")
    short = with_half(shortened(settings.recipe, settings.share))
    job = TrainingJob(f"base/block_{block}", short, settings.training, data, arm_seed(block, "base"))
    outcome = train_weights(run, job, block, settings.network, settings.schedule)
    folder = run.output(f"artifacts/pilot/base/block_{block}")
    write_models(folder, outcome)
    figures = measuring.path(*half_and_end(folder, short), "base")
    told = {"block": block} | figures | {"costs": figures["costs"] | costs_of(outcome)}
    run.metrics(f"results/pilot/base/block_{block}.json", told)


if __name__ == "__main__":
    main()
