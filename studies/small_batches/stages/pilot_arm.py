"""Train the fresh weights of a block of the pilot with an arm's batches, once for each rate that is tried."""

from studies.small_batches.densities import Densities
from studies.small_batches.training import ArmSettings, job_of, train_arm
from unequal.comparison.measuring import Measuring
from unequal.comparison.training import TriesSettings, try_all
from unequal.data.prepared import PreparedData
from unequal.evaluation.fidelity import BuiltExtractor
from unequal.pipeline.stage import Run, stage
from unequal.settings.recipe import Recipe
from unequal.training.train import Outcome
from unequal.workspace import Workspace


class Settings(TriesSettings, ArmSettings):
    """Keys of params.yaml that this stage reads."""


@stage(Settings)
def main(run: Run, settings: Settings, arm: str, block: int) -> None:
    """Train and measure an arm once for each try, at half and at the end of each training."""

    def train(place: Workspace, recipe: Recipe, data: PreparedData, name: str, seed: int) -> Outcome:
        job = job_of(name, recipe, settings.arm, settings.training, data, seed)
        return train_arm(place, job, settings, block, densities)

    data = PreparedData.open(run.input("artifacts/data"))
    densities = Densities.read(run.input("results/densities.json"), settings.schedule.timesteps)
    extractor = BuiltExtractor.load(run.input("artifacts/extractor"))
    measuring = Measuring(run, settings, data, extractor, block, "choice")
    tried = try_all(measuring, settings, arm, train)
    run.metrics(f"results/pilot/{arm}/block_{block}.json", {"arm": arm, "block": block, "tries": tried})


if __name__ == "__main__":
    main()
