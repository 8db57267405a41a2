"""Train the fresh weights of a block by an arm's recipe, with batches of the arm's own size."""

from studies.small_batches.densities import Densities
from studies.small_batches.training import ArmSettings, ChosenSettings, conditions, job_of, train_arm
from unequal.comparison.settings import arm_seed
from unequal.comparison.training import costs_of, made_by
from unequal.data.prepared import PreparedData
from unequal.pipeline.stage import Run, stage
from unequal.training.results import write_results


class Settings(ChosenSettings, ArmSettings):
    """Keys of params.yaml that this stage reads."""


@stage(Settings, shared=True)
def main(run: Run, settings: Settings, arm: str, block: int) -> None:
    """Train an arm within a block."""
    data = PreparedData.open(run.input("artifacts/data"))
    densities = Densities.read(run.input("results/densities.json"), settings.schedule.timesteps)
    name, seed, recipe = f"{arm}/block_{block}", arm_seed(block, arm), settings.recipe_of(arm)
    job = job_of(name, recipe, settings.arm, settings.training, data, seed)
    outcome = train_arm(run, job, settings, block, densities)
    write_results(run, outcome)
    told = made_by(*conditions(settings, recipe, densities))
    run.metrics(f"results/trainings/{name}.json", told | costs_of(outcome))


if __name__ == "__main__":
    main()
