"""Train the fresh weights of a block by an arm's recipe, with batches of the arm's own size."""

from studies.small_batches.densities import Densities
from studies.small_batches.training import ArmSettings, conditions, job_of, train_arm
from unequal.comparison.settings import arm_seed, shortened
from unequal.comparison.training import ChosenSettings, costs_of, made_by
from unequal.data.prepared import PreparedData
from unequal.pipeline.stage import Run, stage
from unequal.training.results import write_results


class Settings(ArmSettings, ChosenSettings):
    """Keys of params.yaml that this stage reads."""


@stage(Settings, shared=True)
def main(run: Run, settings: Settings, arm: str, block: int) -> None:
    """Train an arm within a block."""
    data = PreparedData.open(run.input("artifacts/data"))
    densities = Densities.read(run.input("results/densities.json"), settings.schedule.timesteps)
    recipe = shortened(settings.recipe, 1.0, settings.tried(arm))
    job = job_of(f"{arm}/block_{block}", recipe, settings.arm, settings.training, data, arm_seed(block, arm))
    outcome = train_arm(run, settings, job, block, densities)
    write_results(run, outcome)
    known = made_by(*conditions(settings, recipe, densities))
    run.metrics(f"results/trainings/{arm}/block_{block}.json", known | costs_of(outcome))


if __name__ == "__main__":
    main()
