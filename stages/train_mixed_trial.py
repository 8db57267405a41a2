"""Train one trial of a grid with three heads (x0, v, ε): a mixed recipe at a batch, from a training seed."""

from unequal.data.prepared import PreparedData
from unequal.diffusion.schedule import NoiseSchedule
from unequal.pipeline.stage import Run, stage
from unequal.settings.grid import trial_name
from unequal.settings.network import Network
from unequal.settings.profile import Profile
from unequal.settings.recipe import Recipe
from unequal.settings.schedule import Schedule
from unequal.settings.strict import StageSettings, key
from unequal.settings.training import Training
from unequal.training.mixed import mixed_job
from unequal.training.run import produce
from unequal.training.trial import recipe_at, training_at


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    schedule: Schedule
    network: Network
    training: Training
    profile: Profile
    recipe: Recipe = key("recipes.{recipe}")
    reference_batch: int = key("grid.reference_batch")
    lr_scaling: str = key("grid.lr_scaling")


@stage(Settings, shared=True)
def main(run: Run, settings: Settings, recipe: str, batch: str, seed: int) -> None:
    """Train a mixed trial; the batch is written as images at once × parts accumulated."""
    data = PreparedData.open(run.input("artifacts/data"))
    schedule = NoiseSchedule.named(settings.schedule.name, settings.schedule.timesteps)
    chosen = recipe_at(settings.recipe, batch, settings.reference_batch, settings.lr_scaling)
    training = training_at(settings.training, batch, settings.reference_batch)
    name, profile = trial_name(recipe, batch, seed), settings.profile
    produce(run, mixed_job(name, data, schedule, settings.network, chosen, training, profile, seed, run.device))


if __name__ == "__main__":
    main()
