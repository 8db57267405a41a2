"""Train the fresh weights of a block of the pilot with an arm's batches, once for each rate that is tried."""

from studies.blocks.trying import TriesSettings, try_all
from studies.small_batches.training import ArmSettings, job_of, train_arm
from unequal.data.prepared import PreparedData
from unequal.pipeline.stage import Run, stage
from unequal.settings.recipe import Recipe
from unequal.training.train import Outcome
from unequal.workspace.protocol import Workspace


class Settings(TriesSettings, ArmSettings):
    """Keys of params.yaml that this stage reads."""


@stage(Settings)
def main(run: Run, settings: Settings, arm: str, block: int) -> None:
    """Train and measure an arm once for each try, at half and at the end of each training."""

    def train(place: Workspace, recipe: Recipe, data: PreparedData, name: str, seed: int) -> Outcome:
        return train_arm(place, job_of(name, recipe, settings.arm, settings.training, data, seed), settings, block)

    try_all(run, settings, arm, block, train)


if __name__ == "__main__":
    main()
