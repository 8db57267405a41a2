"""Training a small autoencoder, where none that is trained fits the images.

Latent diffusion's (2112.10752) without its perceptual and adversarial terms: squared error and a KL divergence that
keeps latents near N(0, 1). Blurred, but made in a minute.
"""

import numpy as np
import torch
from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL
from torch import Tensor

from unequal.data.pixels import tensor_of, to_model_range
from unequal.errors import UserError
from unequal.latents.autoencoder import Autoencoder
from unequal.randomness import Stream, numpy_generator, torch_seed
from unequal.settings.autoencoder import TrainedAutoencoder

#: Training images, at most, whose latents set the scale.
SCALED = 10_000


def build_autoencoder(settings: TrainedAutoencoder, image_size: int, channels: int, seed: int) -> AutoencoderKL:
    """The network with fresh weights."""
    torch.manual_seed(torch_seed(seed, Stream.AUTOENCODER))
    levels = len(settings.block_out_channels)
    return AutoencoderKL(
        in_channels=channels,
        out_channels=channels,
        down_block_types=("DownEncoderBlock2D",) * levels,
        up_block_types=("UpDecoderBlock2D",) * levels,
        block_out_channels=settings.block_out_channels,
        layers_per_block=settings.layers_per_block,
        latent_channels=settings.latent_channels,
        norm_num_groups=settings.norm_num_groups,
        sample_size=image_size,
        scaling_factor=1.0,
        mid_block_add_attention=False,
    )


def train_autoencoder(net: AutoencoderKL, images: np.ndarray, settings: TrainedAutoencoder, seed: int) -> None:
    """Train in place on [N, C, H, W] uint8 images for the budget; then set the scale by which latents have variance 1.

    Args:
        net: on the training device.
        images: the training set.
        settings: budget, batch and weights of the loss.
        seed: of batches and of the posterior's noise.

    Raises:
        UserError: the latents came out NaN, infinite or all alike.
    """
    net.train().requires_grad_(True)
    steps = -(-settings.images // settings.batch_size)
    optimizer = torch.optim.AdamW(net.parameters(), lr=settings.lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, settings.lr, total_steps=steps)
    for step in range(steps):
        generator = numpy_generator(seed, Stream.AUTOENCODER, step)
        index = generator.integers(len(images), size=settings.batch_size)
        torch.manual_seed(int(generator.integers(2**62)))
        loss = loss_of(net, to_model_range(torch.from_numpy(images[index]).to(net.device)), settings.kl_weight)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    latents = Autoencoder(net, settings.batch_size).encode(tensor_of(images[:SCALED]))
    net.register_to_config(scaling_factor=1 / spread_of(latents))


def spread_of(latents: Tensor) -> float:
    """Standard deviation of latents. Raises UserError where nothing could be scaled by it."""
    spread = float(latents.std())
    if not 0 < spread < float("inf"):
        raise UserError(
            f"autoencoder: its latents have a standard deviation of {spread}; lower autoencoder.lr where that is NaN, "
            "and look at the images where it is 0: they may be all alike"
        )
    return spread


def loss_of(net: AutoencoderKL, x: Tensor, kl_weight: float) -> Tensor:
    """Mean squared error a pixel of images [B, C, H, W] in [-1, 1], and the weighted KL divergence a latent value."""
    posterior = net.encode(x).latent_dist
    z = posterior.sample()
    return (net.decode(z).sample - x).square().mean() + kl_weight * posterior.kl().mean() / z[0].numel()
