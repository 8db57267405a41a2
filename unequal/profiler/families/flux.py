"""FluxTransformer2DModel: Flux's transformer of a rectified flow, which sees latents in patches of 2 × 2."""

from typing import Any

import torch
from diffusers.models.transformers.transformer_flux import FluxTransformer2DModel
from torch import Tensor, nn

from unequal.diffusion.schedule import REFERENCE_TIMESTEPS
from unequal.profiler.families.family import Asked, dtype_of
from unequal.profiler.families.texts import OfTexts
from unequal.profiler.kept import Rows

TEXTS, POOLED = "prompt_embeds", "pooled_prompt_embeds"
PATCH = 2
#: Its configuration tells no size; its pipeline samples 128 latent pixels a side where none is asked.
LATENT_SIDE = 128


class Flux(OfTexts):
    """FluxPipeline."""

    part, kind = "transformer", FluxTransformer2DModel
    pipelines = ("FluxPipeline",)

    @property
    def default_resolution(self) -> int:
        return LATENT_SIDE * self.factor

    @property
    def input_channels(self) -> int:
        return int(self.config["in_channels"]) // PATCH**2

    @property
    def multiple(self) -> int:
        return PATCH

    def encoded(self, pipe: Any, texts: list[str], device: torch.device) -> Rows:
        prompt, pooled, _ = pipe.encode_prompt(texts, None, device=device)
        return {TEXTS: prompt, POOLED: pooled}

    def answer(self, net: nn.Module, asked: Asked) -> Tensor:
        dtype, texts = dtype_of(net), asked.known[TEXTS]
        count, _, height, width = asked.x_t.shape
        device = asked.x_t.device
        guidance = torch.full((count,), self.guidance, device=device) if self.config.get("guidance_embeds") else None
        answer = net(
            hidden_states=packed(asked.x_t).to(dtype),
            timestep=(asked.told / REFERENCE_TIMESTEPS).to(dtype),
            guidance=guidance,
            pooled_projections=asked.known[POOLED].to(dtype),
            encoder_hidden_states=texts.to(dtype),
            txt_ids=torch.zeros(texts.shape[1], 3, device=device, dtype=dtype),
            img_ids=places(height // PATCH, width // PATCH).to(device, dtype),
        )
        return unpacked(answer.sample, height, width).float()


def packed(latents: Tensor) -> Tensor:
    """Latents [B, C, H, W] as a row of patches, [B, H/2·W/2, 4·C]."""
    patches = latents.unflatten(3, (-1, PATCH)).unflatten(2, (-1, PATCH))
    return patches.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)


def unpacked(rows: Tensor, height: int, width: int) -> Tensor:
    """The latents again, [B, C, H, W]."""
    patches = rows.unflatten(1, (height // PATCH, width // PATCH)).unflatten(3, (-1, PATCH, PATCH))
    return patches.permute(0, 3, 1, 4, 2, 5).flatten(4).flatten(2, 3)


def places(rows: int, columns: int) -> Tensor:
    """Where each patch lies: 0, its row, its column, [rows·columns, 3]."""
    grid = torch.cartesian_prod(torch.arange(rows), torch.arange(columns))
    return torch.cat([torch.zeros(len(grid), 1, dtype=grid.dtype), grid], dim=1)
