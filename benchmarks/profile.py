"""Costs of a loss profile beyond the network's own forward passes.

Both are timed on the same batches, in turns. `share` is the bare forward passes' time over that of the whole profile: 1
would mean that all else is free.
"""

from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.timing import in_turns, ratio
from unequal.cli.architecture import network_of, spec_of
from unequal.diffusion.predictions import add_noise
from unequal.evaluation.profiling import Draws, profile
from unequal.models.denoiser import Denoiser
from unequal.settings.params import Params

#: Images that the draws are taken from: more only take up memory.
IMAGES = 1000


@torch.no_grad()
def forward_passes(net: nn.Module, batches: list[tuple[Tensor, Tensor]]) -> None:
    """The network's answers alone."""
    for x_t, t in batches:
        net(x_t, t)


def measure(params: Params, device: torch.device, repeats: int, images: int | None = None) -> dict[str, Any]:
    """Times of both, in turns, and the share of the forward passes; `images`: draws a timestep, None as in `params`."""
    size, channels = params.data.image_size, params.data.channels
    schedule = params.schedule.tables().to(device)
    net = network_of(params).to(device)
    pixels = torch.randint(0, 256, (IMAGES, channels, size, size), dtype=torch.uint8)
    draws = Draws.of(pixels, schedule.timesteps, images or params.profile.images, params.seed, device)
    denoiser = Denoiser(net, spec_of(params))
    drawn = draws.batches(params.profile.batch_size)
    batches = [(add_noise(x0, epsilon, *schedule.at(t, x0)), t) for x0, epsilon, t, _ in drawn]
    work = {
        "profile": lambda: profile(denoiser, draws, params.profile.batch_size),
        "forward": lambda: forward_passes(net, batches),
    }
    times = in_turns(work, repeats, device)
    return {
        "share": ratio(times["forward"], times["profile"])["median"],
        "forward_seconds": times["forward"],
        "profile_seconds": times["profile"],
        "timesteps": schedule.timesteps,
        "images_per_timestep": images or params.profile.images,
        "batch_size": params.profile.batch_size,
        "image": [channels, size, size],
    }
