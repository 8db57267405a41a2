"""Train the fresh weights of a block of the pilot with an arm's batches, once for each rate that is tried."""

from studies.small_batches.densities import Densities
from studies.small_batches.training import ArmSettings, job_of, train_arm
from unequal.comparison.measuring import Measuring, MeasuringSettings
from unequal.comparison.settings import Try, arm_seed
from unequal.comparison.training import try_fresh
from unequal.data.prepared import PreparedData
from unequal.evaluation.fidelity import BuiltExtractor
from unequal.pipeline.stage import Run, stage
from unequal.settings.recipe import Recipe
from unequal.settings.strict import key
from unequal.training.train import Outcome
from unequal.workspace import Workspace


class Settings(MeasuringSettings, ArmSettings):
    """Keys of params.yaml that this stage reads."""

    tries: dict[str, Try] = key("pilot.tries")
    share: float = key("pilot.share")


@stage(Settings)
def main(run: Run, settings: Settings, arm: str, block: int) -> None:
    """Train and measure an arm once for each try, at half and at the end of each training."""

    def train(place: Workspace, recipe: Recipe, name: str) -> Outcome:
        seed = arm_seed(block, name)
        job = job_of(f"{name}/block_{block}", recipe, settings.arm, settings.training, data, seed)
        return train_arm(place, settings, job, block, densities)

    data = PreparedData.open(run.input("artifacts/data"))
    densities = Densities.read(run.input("results/densities.json"), settings.schedule.timesteps)
    extractor = BuiltExtractor.load(run.input("artifacts/extractor"))
    measuring = Measuring(run, settings, data, extractor, block, "choice")
    # Without snapshots all arms are measured by all samples, those that keep some in the blocks too.
    recipe = settings.recipe.model_copy(update={"snapshots": ()})
    tried = try_fresh(measuring, train, arm, recipe, settings.tries, settings.share)
    run.metrics(f"results/pilot/{arm}/block_{block}.json", {"arm": arm, "block": block, "tries": tried})


if __name__ == "__main__":
    main()
