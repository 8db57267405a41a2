"""Train a replica of the base: fresh weights of a seed, a network of some width."""

from unequal.data.prepared import PreparedData
from unequal.diffusion.schedule import NoiseSchedule
from unequal.models.replica import untrained
from unequal.pipeline.stage import Run, stage
from unequal.settings.consistency import replica
from unequal.settings.network import Network
from unequal.settings.recipe import Recipe
from unequal.settings.schedule import Schedule
from unequal.settings.strict import StageSettings, key
from unequal.settings.training import Training
from unequal.timesteps.samplers import build_sampler
from unequal.training.run import Job, Start, produce


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    schedule: Schedule
    network: Network
    training: Training
    recipe: Recipe = key("recipes.base")


@stage(Settings, shared=True)
def main(run: Run, settings: Settings, width: str, seed: int) -> None:
    """Train a replica; the width is written as channels of each resolution, as in 16-32."""
    data = PreparedData.open(run.input("artifacts/data"))
    channels, size, _ = data.images.shape[1:]
    schedule = NoiseSchedule.named(settings.schedule.name, settings.schedule.timesteps)
    sampler = build_sampler(
        timesteps=schedule.timesteps,
        alphas_cumprod=schedule.alphas_cumprod.numpy(),
        **settings.recipe.sampler.model_dump(),
    )
    start = Start.of(untrained(settings.network, width, seed, size, channels), schedule, settings.network)
    produce(run, Job(replica(width, seed), start, settings.recipe, settings.training, sampler, data, seed))


if __name__ == "__main__":
    main()
