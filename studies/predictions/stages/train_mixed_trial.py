"""Train one trial of a grid with three heads (x0, v, ε): a mixed recipe at a batch, from a training seed."""

from studies.grid.settings import trial_name
from studies.grid.trial import recipe_at, training_at
from unequal.data.prepared import PreparedData
from unequal.pipeline.stage import Run, stage
from unequal.settings.network import AnyNetwork
from unequal.settings.profile import Profile
from unequal.settings.recipe import Recipe
from unequal.settings.schedule import Schedule
from unequal.settings.strict import StageSettings, key
from unequal.settings.training import Training
from unequal.training.mixed_prediction import with_three_heads
from unequal.training.results import write_results
from unequal.training.train import TrainingJob, train_fresh


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    schedule: Schedule
    network: AnyNetwork
    training: Training
    profile: Profile
    recipe: Recipe = key("recipes.{recipe}")
    reference_batch: int = key("grid.reference_batch")
    lr_scaling: str = key("grid.lr_scaling")


@stage(Settings, shared=True)
def main(run: Run, settings: Settings, recipe: str, batch: str, seed: int) -> None:
    """Train a mixed trial; the batch is written as images at once × parts accumulated."""
    data = PreparedData.open(run.input("artifacts/data"))
    chosen = recipe_at(settings.recipe, batch, settings.reference_batch, settings.lr_scaling)
    training = training_at(settings.training, batch, settings.reference_batch)
    job = TrainingJob(trial_name(recipe, batch, seed), chosen, training, data, seed)
    job = with_three_heads(job, settings.network, settings.schedule, settings.profile, run.device)
    write_results(run, train_fresh(run, job, settings.network, settings.schedule))


if __name__ == "__main__":
    main()
