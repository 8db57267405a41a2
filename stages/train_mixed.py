"""Train a model with three heads (x0, v, ε) from fresh weights, and settle how they are combined."""

import torch
from diffusers.models.unets.unet_2d import UNet2DModel
from torch import Tensor

from unequal.data.pixels import tensor_of
from unequal.data.prepared import PreparedData
from unequal.errors import UserError
from unequal.models.denoiser import Denoiser
from unequal.models.network import build_network
from unequal.pipeline.stage import Run, stage
from unequal.predictions import HEADS
from unequal.profiling import Draws, head_products
from unequal.randomness import Stream, torch_seed
from unequal.samplers import build_sampler
from unequal.schedule import NoiseSchedule
from unequal.settings.network import Network
from unequal.settings.profile import Profile
from unequal.settings.recipe import Recipe
from unequal.settings.schedule import Schedule
from unequal.settings.strict import StageSettings, key
from unequal.settings.training import Training
from unequal.training.run import Job, Start, produce


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    seed: int
    schedule: Schedule
    network: Network
    training: Training
    profile: Profile
    recipe: Recipe = key("recipes.mixed")


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Train the mixed prediction."""
    mixing = settings.recipe.mixing
    if mixing is None:
        raise UserError(f"recipes.mixed.prediction: '{settings.recipe.prediction}'; allowed: mixed")
    data = PreparedData.open(run.input("artifacts/data"))
    channels, size, _ = data.images.shape[1:]
    torch.manual_seed(torch_seed(settings.seed, Stream.INITIAL_WEIGHTS))
    schedule = NoiseSchedule.named(settings.schedule.name, settings.schedule.timesteps)
    sampler = build_sampler(
        timesteps=schedule.timesteps,
        alphas_cumprod=schedule.alphas_cumprod.numpy(),
        **settings.recipe.sampler.model_dump(),
    )
    enlargement = settings.network.enlargement
    net = build_network(settings.network, size, channels, heads=len(HEADS))
    start = Start(net, schedule, enlargement=enlargement)

    def measure(net: UNet2DModel) -> Tensor:
        seed = torch_seed(settings.seed, Stream.HEADS)
        draws = Draws.of(tensor_of(data.holdout), schedule.timesteps, settings.profile.images, seed, run.device)
        denoiser = Denoiser.of_heads(net, schedule, enlargement)
        return torch.from_numpy(head_products(denoiser, draws, settings.profile.batch_size))

    produce(run, Job("mixed", start, settings.recipe, settings.training, sampler, data, settings.seed, measure))


if __name__ == "__main__":
    main()
