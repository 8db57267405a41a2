"""Train a model with three heads (x0, v, ε) from fresh weights, and settle how they are combined."""

from unequal.data.prepared import PreparedData
from unequal.diffusion.schedule import NoiseSchedule
from unequal.pipeline.stage import Run, stage
from unequal.settings.network import Network
from unequal.settings.profile import Profile
from unequal.settings.recipe import Recipe
from unequal.settings.schedule import Schedule
from unequal.settings.strict import StageSettings, key
from unequal.settings.training import Training
from unequal.training.mixed import mixed_job
from unequal.training.run import produce


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    seed: int
    schedule: Schedule
    network: Network
    training: Training
    profile: Profile
    recipe: Recipe = key("recipes.mixed")


@stage(Settings, shared=True)
def main(run: Run, settings: Settings) -> None:
    """Train the mixed prediction."""
    data = PreparedData.open(run.input("artifacts/data"))
    schedule = NoiseSchedule.named(settings.schedule.name, settings.schedule.timesteps)
    training, recipe, profile = settings.training, settings.recipe, settings.profile
    job = mixed_job("mixed", data, schedule, settings.network, recipe, training, profile, settings.seed, run.device)
    produce(run, job)


if __name__ == "__main__":
    main()
