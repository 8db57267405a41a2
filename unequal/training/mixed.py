"""A training of three heads (x0, v, ε) as a job: from fresh weights to the way in which the heads are combined."""

import torch
from diffusers.models.unets.unet_2d import UNet2DModel
from torch import Tensor

from unequal.data.pixels import tensor_of
from unequal.data.prepared import PreparedData
from unequal.diffusion.predictions import HEADS
from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.models.denoiser import Denoiser
from unequal.models.network import build_network
from unequal.profiling import Draws, head_products
from unequal.randomness import Stream, torch_seed
from unequal.settings.network import Network
from unequal.settings.profile import Profile
from unequal.settings.recipe import Recipe
from unequal.settings.training import Training
from unequal.timesteps.samplers import build_sampler
from unequal.training.run import Job, Start


def mixed_job(
    name: str,
    data: PreparedData,
    schedule: NoiseSchedule,
    network: Network,
    recipe: Recipe,
    training: Training,
    profile: Profile,
    seed: int,
    device: torch.device,
) -> Job:
    """The job of training three heads; its draws of held-out images settle how they are combined.

    Raises UserError where the recipe has one head.
    """
    if recipe.mixing is None:
        raise UserError(f"a mixed model has three heads, and its recipe one, '{recipe.prediction}'; allowed: mixed")
    channels, size, _ = data.images.shape[1:]
    torch.manual_seed(torch_seed(seed, Stream.INITIAL_WEIGHTS))
    sampler = build_sampler(
        timesteps=schedule.timesteps,
        alphas_cumprod=schedule.alphas_cumprod.numpy(),
        **recipe.sampler.model_dump(),
    )
    net = build_network(network, size, channels, heads=len(HEADS))

    def measure(net: UNet2DModel) -> Tensor:
        images, key = tensor_of(data.holdout), torch_seed(seed, Stream.HEADS)
        draws = Draws.of(images, schedule.timesteps, profile.images, key, device, data.holdout_labels)
        denoiser = Denoiser.of_heads(net, schedule, network.enlargement, network.classes)
        return torch.from_numpy(head_products(denoiser, draws, profile.batch_size).mean(1))

    start = Start.of(net, schedule, network)
    return Job(name, start, recipe, training, sampler, data, seed, measure)
