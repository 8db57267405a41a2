"""SD3Transformer2DModel: Stable Diffusion 3's transformer of a rectified flow (2403.03206)."""

from typing import Any

import torch
from diffusers.models.transformers.transformer_sd3 import SD3Transformer2DModel
from torch import Tensor, nn

from unequal.errors import UserError
from unequal.profiler.families.family import Asked, dtype_of
from unequal.profiler.families.texts import OfTexts
from unequal.profiler.kept import Rows

TEXTS, POOLED = "prompt_embeds", "pooled_prompt_embeds"


class SD3(OfTexts):
    """StableDiffusion3Pipeline."""

    part, kind = "transformer", SD3Transformer2DModel
    pipelines = ("StableDiffusion3Pipeline",)

    @property
    def multiple(self) -> int:
        return int(self.config["patch_size"])

    def check(self) -> None:
        super().check()
        largest = int(self.config["pos_embed_max_size"]) * self.multiple * self.factor
        if self.resolution > largest:
            raise UserError(f"--resolution {self.resolution}: the {self.title} knows places of up to {largest} pixels")

    def encoded(self, pipe: Any, texts: list[str], device: torch.device) -> Rows:
        found = pipe.encode_prompt(texts, None, None, device=device, do_classifier_free_guidance=False)
        return {TEXTS: found[0], POOLED: found[2]}

    def answer(self, net: nn.Module, asked: Asked) -> Tensor:
        dtype = dtype_of(net)
        answer = net(
            hidden_states=asked.x_t.to(dtype),
            encoder_hidden_states=asked.known[TEXTS].to(dtype),
            pooled_projections=asked.known[POOLED].to(dtype),
            timestep=asked.told,
        )
        return self.without_variance(answer.sample)
