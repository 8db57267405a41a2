"""Tiny pipelines with random weights in the form in which diffusers keeps true ones, and images for them."""

from pathlib import Path

import numpy as np
import torch
from diffusers import AutoencoderKL, DDPMPipeline, DDPMScheduler, DiTPipeline, DiTTransformer2DModel, UNet2DModel
from PIL import Image

BETAS = np.linspace(1e-3, 0.2, 24).tolist()


def write_images(folder: Path, count: int, seed: int = 0, size: int = 8, channels: int = 1) -> Path:
    """Images of noise, named in their order."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(seed)
    for number in range(count):
        pixels = generator.integers(0, 256, (size, size, channels), dtype=np.uint8)
        Image.fromarray(pixels[..., 0] if channels == 1 else pixels).save(folder / f"{number:02}.png")
    return folder


def write_captions(folder: Path) -> Path:
    """A text beside each image."""
    for file in folder.glob("*.png"):
        file.with_suffix(".txt").write_text(f"a picture number {int(file.stem)}", encoding="utf-8")
    return folder


def unet2d(classes: int | None = None, seed: int = 0) -> UNet2DModel:
    torch.manual_seed(seed)
    return UNet2DModel(
        sample_size=8,
        in_channels=1,
        out_channels=1,
        block_out_channels=(8, 16),
        norm_num_groups=4,
        layers_per_block=1,
        down_block_types=("DownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "UpBlock2D"),
        attention_head_dim=4,
        num_class_embeds=classes,
    )


def ddpm(folder: Path, seed: int = 0, classes: int | None = None, **scheduler: object) -> Path:
    """A DDPMPipeline on 24 timesteps."""
    told = {"num_train_timesteps": 24, "trained_betas": BETAS, **scheduler}
    DDPMPipeline(unet2d(classes, seed), DDPMScheduler(**told)).save_pretrained(folder)
    return folder


def autoencoder(channels: int = 4) -> AutoencoderKL:
    """From 16 × 16 pixels to latents of 8 × 8."""
    return AutoencoderKL(
        block_out_channels=(4, 8),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        norm_num_groups=2,
        latent_channels=channels,
        scaling_factor=0.5,
        shift_factor=0.1,
        mid_block_add_attention=False,
    )


def dit(folder: Path) -> Path:
    """A DiTPipeline of three classes, with a learned variance."""
    torch.manual_seed(0)
    net = DiTTransformer2DModel(
        num_attention_heads=2,
        attention_head_dim=4,
        in_channels=4,
        out_channels=8,
        num_layers=1,
        sample_size=8,
        patch_size=2,
        num_embeds_ada_norm=3,
        norm_num_groups=2,
    )
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.normal_(std=0.2)
    DiTPipeline(net, autoencoder(), DDPMScheduler(num_train_timesteps=24)).save_pretrained(folder)
    return folder
