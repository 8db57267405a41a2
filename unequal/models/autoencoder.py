"""Autoencoders of diffusers: images to latents and back, on the scale on which diffusion sees latents, and training.

A small autoencoder is trained where no trained one fits the images: latent diffusion's (2112.10752) without its
perceptual and adversarial terms, with a squared error and a KL divergence that holds latents near N(0, 1). Its images
are blurred, but it takes a minute.
"""

# ruff: noqa: E402

from unequal.errors import needs

needs(__name__, "pipeline", "diffusers", "pydantic", "tqdm")

from pathlib import Path
from typing import cast

import numpy as np
import torch
from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL
from diffusers.models.autoencoders.vq_model import VQModel
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from unequal.data.prepared import tensor_of, to_model_range, to_uint8
from unequal.errors import UserError
from unequal.models.denoiser import Precision
from unequal.models.folder import ModelRecord
from unequal.models.foreign import find_network
from unequal.randomness import Stream, numpy_generator, torch_seed
from unequal.runtime.devices import chosen_precision
from unequal.runtime.files import content_hash
from unequal.runtime.outside import located
from unequal.runtime.progress import progress
from unequal.settings.data import PretrainedAutoencoder, TrainedAutoencoder

Net = AutoencoderKL | VQModel
KINDS: dict[str, type[AutoencoderKL] | type[VQModel]] = {"AutoencoderKL": AutoencoderKL, "VQModel": VQModel}
#: Where diffusers' pipelines keep their autoencoder.
SUBFOLDERS = (None, "vae", "vqvae")
#: Training images, at most, whose latents set the scale.
SCALED = 10_000


class Autoencoder:
    """z = (E(x) − shift)·scale, and the image of z; shift and scale stand in the network's config.

    Args:
        net: of diffusers.
        batch_size: images that go through it at once.
        precision: of its layers under autocast; latents and images stay float32.
    """

    def __init__(self, net: Net, batch_size: int, precision: Precision = "fp32") -> None:
        self.net = net.eval().requires_grad_(False)
        self.batch_size = batch_size
        self.bf16 = chosen_precision(precision, self.device) == "bf16"
        self.scale = float(net.config["scaling_factor"])
        self.shift = float(net.config.get("shift_factor") or 0.0)

    @property
    def device(self) -> torch.device:
        return next(self.net.parameters()).device

    @torch.no_grad()
    def encode(self, images: Tensor) -> Tensor:
        """uint8 [N, C, H, W] → latents [N, c, h, w], both on any device; of AutoencoderKL the mean of its posterior."""
        return torch.cat([self.encoded(part) for part in images.split(self.batch_size)])

    def encoded(self, images: Tensor) -> Tensor:
        """Latents of as many images as fit at once."""
        with self.autocast():
            answer = self.net.encode(to_model_range(images.to(self.device)))
        latents = answer.latents if isinstance(self.net, VQModel) else answer.latent_dist.mode()
        return (latents.float() - self.shift) * self.scale

    @torch.no_grad()
    def decode(self, latents: Tensor) -> Tensor:
        """Latents [N, c, h, w] → images [N, C, H, W], about [-1, 1]."""
        parts = (latents.to(self.device) / self.scale + self.shift).split(self.batch_size)
        with self.autocast():
            return torch.cat([self.net.decode(part).sample.float() for part in parts])

    def autocast(self) -> torch.autocast:
        """The precision that the network's layers compute in."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16)

    def reconstruct(self, images: Tensor) -> Tensor:
        """Images encoded and decoded again, uint8 [N, C, H, W] → the same on the CPU.

        Raises UserError where they are no numbers, of which uint8 would make black pixels.
        """
        return torch.cat([self.reconstructed(part) for part in images.split(self.batch_size)])

    def reconstructed(self, images: Tensor) -> Tensor:
        """Batches of reconstructed images, as many as fit at once."""
        again = self.decode(self.encode(images))
        if not bool(again.isfinite().all()):
            raise UserError(
                "autoencoder: decoded images hold NaN or infinite values; its weights or scaling_factor are unsound "
                "(of a trained one, lower autoencoder.lr)"
            )
        return to_uint8(again).cpu()

    def decoding_macs(self, shape: tuple[int, int, int]) -> int:
        """Multiply–accumulates of decoding one latent [c, h, w], attention's products included."""
        with FlopCounterMode(display=False) as counter:
            self.decode(torch.zeros(1, *shape))
        return counter.get_total_flops() // 2


def latent_shape(net: Net, image_size: int, channels: int, source: str) -> tuple[int, int, int]:
    """[c, h, w] of the latents of square images. Raises UserError where they do not fit the autoencoder."""
    if (expected := net.config["in_channels"]) != channels:
        raise UserError(f"autoencoder: {source} is for images of {expected} channels; the data have {channels}")
    factor = 2 ** (len(net.config["block_out_channels"]) - 1)
    if image_size % factor or image_size < 2 * factor:
        raise UserError(
            f"autoencoder: {source} makes one latent pixel of {factor} × {factor}; data.image_size {image_size} is no "
            f"multiple of {factor} with two latent pixels a side or more"
        )
    # VQModel's codes may be shorter than what its encoder gives.
    return net.config.get("vq_embed_dim") or net.config["latent_channels"], image_size // factor, image_size // factor


def take_over(chosen: PretrainedAutoencoder, image_size: int, channels: int) -> Net:
    """The trained network that the settings name, with their scale in its config.

    Raises UserError where it is not there, does not fit the images, or has other latents than the settings say.
    """
    place = located(chosen.source, "autoencoder.source")
    net = find_net(str(place)) if isinstance(place, Path) else find_net(*place)
    shape = latent_shape(net, image_size, channels, f"'{chosen.source}'")
    expected = (chosen.latent_channels, image_size // chosen.factor, image_size // chosen.factor)
    if expected != shape:
        raise UserError(
            f"autoencoder: '{chosen.source}' has latent_channels: {shape[0]} and factor: {image_size // shape[1]}; "
            f"the settings say {chosen.latent_channels} and {chosen.factor}"
        )
    if chosen.scaling_factor is not None:
        net.register_to_config(scaling_factor=chosen.scaling_factor)
    return net


def find_net(source: str, revision: str | None = None) -> Net:
    """The trained network from a folder, or from the Hub at a revision, of whose files nothing but tensors is read.

    Raises UserError where there is none that loads, or its weights are not finite.
    """
    # Older ones lie on the Hub as pickles alone, of which diffusers reads tensors.
    options = {"revision": revision, "use_safetensors": None}
    return cast(Net, find_network(KINDS, source, f"autoencoder: '{source}'", SUBFOLDERS, **options))


def check_origin(record: ModelRecord, folder: Path) -> None:
    """Raise UserError where a model does not work in the latents of the autoencoder in a folder."""
    if record.spec.space.autoencoder != identity(folder):
        raise UserError(f"{folder}: not the autoencoder in whose latents '{record.name}' works; train the model again")


def load_autoencoder(folder: Path, device: torch.device, batch_size: int, precision: Precision = "fp32") -> Autoencoder:
    """The autoencoder that a stage has left in a folder. Raises UserError where it is missing or damaged."""
    net = find_net(str(folder))
    return Autoencoder(net.to(device), batch_size, precision)


def identity(folder: Path) -> str:
    """Name of the autoencoder in a folder for latents and models: a hash of its config and weights."""
    return content_hash(folder)


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


def train_autoencoder(
    net: AutoencoderKL, images: np.ndarray, settings: TrainedAutoencoder, seed: int, shown: bool = False
) -> None:
    """Train in place on [N, C, H, W] uint8 images for the budget; then set the scale by which latents have variance 1.

    Args:
        shown: with its progress.

    Raises:
        UserError: the latents are NaN, infinite or all equal.
    """
    net.train().requires_grad_(True)
    steps = -(-settings.images // settings.batch_size)
    optimizer = torch.optim.AdamW(net.parameters(), lr=settings.lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, settings.lr, total_steps=steps)
    with progress(steps, "steps", label="autoencoder", shown=shown) as bar:
        for step in range(steps):
            generator = numpy_generator(seed, Stream.AUTOENCODER, step)
            index = generator.integers(len(images), size=settings.batch_size)
            torch.manual_seed(int(generator.integers(2**62)))
            loss = loss_of(net, to_model_range(torch.from_numpy(images[index]).to(net.device)), settings.kl_weight)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            bar.update()
    latents = Autoencoder(net, settings.batch_size).encode(tensor_of(images[:SCALED]))
    net.register_to_config(scaling_factor=1 / spread_of(latents))


def spread_of(latents: Tensor) -> float:
    """Standard deviation of latents. Raises UserError where nothing could be scaled by it."""
    spread = float(latents.std())
    if not 0 < spread < float("inf"):
        raise UserError(
            f"autoencoder: its latents have a standard deviation of {spread}; lower autoencoder.lr where that is NaN, "
            "and look at the images where it is 0: they may be all equal"
        )
    return spread


def loss_of(net: AutoencoderKL, x: Tensor, kl_weight: float) -> Tensor:
    """Mean squared error a pixel of images [B, C, H, W] in [-1, 1], and the weighted KL divergence a latent value."""
    posterior = net.encode(x).latent_dist
    z = posterior.sample()
    return (net.decode(z).sample - x).square().mean() + kl_weight * posterior.kl().mean() / z[0].numel()
