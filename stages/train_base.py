"""Train the base model on all timesteps, or take a pretrained one."""

import torch

from unequal.data.prepared import PreparedData
from unequal.diffusion.schedule import NoiseSchedule
from unequal.models.network import build_network
from unequal.models.pretrained import take_over
from unequal.pipeline.stage import Run, stage
from unequal.randomness import Stream, torch_seed
from unequal.settings.network import Network
from unequal.settings.recipe import Recipe
from unequal.settings.schedule import Schedule
from unequal.settings.strict import StageSettings, key
from unequal.settings.training import Training
from unequal.timesteps.samplers import build_sampler
from unequal.training.run import Job, Start, train, untrained, write_results


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    seed: int
    schedule: Schedule
    network: Network
    training: Training
    recipe: Recipe = key("recipes.base")


@stage(Settings, shared=True)
def main(run: Run, settings: Settings) -> None:
    """Train the base model."""
    data = PreparedData.open(run.input("artifacts/data"))
    channels, size, _ = data.images.shape[1:]
    torch.manual_seed(torch_seed(settings.seed, Stream.INITIAL_WEIGHTS))
    schedule = NoiseSchedule.named(settings.schedule.name, settings.schedule.timesteps)
    sampler = build_sampler(
        timesteps=schedule.timesteps,
        alphas_cumprod=schedule.alphas_cumprod.numpy(),
        **settings.recipe.sampler.model_dump(),
    )
    network, pretrained = settings.network, settings.network.pretrained is not None
    if pretrained:
        net = take_over(network, size, channels, schedule, settings.recipe.prediction)
    else:
        net = build_network(network, size, channels)
    start = Start.of(net, schedule, network)
    job = Job("base", start, settings.recipe, settings.training, sampler, data, settings.seed)
    write_results(run, job, untrained(run, job) if pretrained else train(run, job))


if __name__ == "__main__":
    main()
