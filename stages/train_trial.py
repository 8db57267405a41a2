"""Train one trial of a grid from fresh weights: a recipe at a batch, from a training seed."""

import torch

from unequal.data.prepared import PreparedData
from unequal.diffusion.schedule import NoiseSchedule
from unequal.models.network import build_network
from unequal.pipeline.stage import Run, stage
from unequal.randomness import Stream, torch_seed
from unequal.settings.grid import trial_name
from unequal.settings.network import Network
from unequal.settings.recipe import Recipe
from unequal.settings.schedule import Schedule
from unequal.settings.strict import StageSettings, key
from unequal.settings.training import Training
from unequal.timesteps.samplers import build_sampler
from unequal.training.run import Job, Start, produce
from unequal.training.trial import recipe_at, training_at


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    schedule: Schedule
    network: Network
    training: Training
    recipe: Recipe = key("recipes.{recipe}")
    reference_batch: int = key("grid.reference_batch")
    lr_scaling: str = key("grid.lr_scaling")


@stage(Settings, shared=True)
def main(run: Run, settings: Settings, recipe: str, batch: str, seed: int) -> None:
    """Train a trial; the batch is written as images at once × parts accumulated."""
    data = PreparedData.open(run.input("artifacts/data"))
    channels, size, _ = data.images.shape[1:]
    torch.manual_seed(torch_seed(seed, Stream.INITIAL_WEIGHTS))
    schedule = NoiseSchedule.named(settings.schedule.name, settings.schedule.timesteps)
    chosen = recipe_at(settings.recipe, batch, settings.reference_batch, settings.lr_scaling)
    sampler = build_sampler(
        timesteps=schedule.timesteps,
        alphas_cumprod=schedule.alphas_cumprod.numpy(),
        **chosen.sampler.model_dump(),
    )
    training = training_at(settings.training, batch, settings.reference_batch)
    start = Start.of(build_network(settings.network, size, channels), schedule, settings.network)
    produce(run, Job(trial_name(recipe, batch, seed), start, chosen, training, sampler, data, seed))


if __name__ == "__main__":
    main()
