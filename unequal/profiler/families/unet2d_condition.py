"""UNet2DConditionModel: the networks of Stable Diffusion 1, 2 and XL."""

from typing import Any

import torch
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel
from torch import Tensor, nn

from unequal.profiler.families.family import Asked, dtype_of
from unequal.profiler.families.texts import OfTexts
from unequal.profiler.kept import Rows

TEXTS, POOLED = "prompt_embeds", "pooled_prompt_embeds"
#: What a network may be told beside time and text: nothing, or a pooled text with sizes.
ADDITIONS = (None, "text_time")
#: Keys of the configuration by which a network is told still more.
MORE = ("class_embed_type", "num_class_embeds", "encoder_hid_dim_type", "time_cond_proj_dim")


class UNet2DCondition(OfTexts):
    """Stable Diffusion's pipelines."""

    part, kind = "unet", UNet2DConditionModel
    pipelines = ("StableDiffusionPipeline", "StableDiffusionXLPipeline")

    def check(self) -> None:
        super().check()
        if further := [name for name in MORE if self.config.get(name) is not None]:
            raise self.refusal(f"is told more than time and texts ({further[0]}); allowed: these alone")
        if (addition := self.config.get("addition_embed_type")) not in ADDITIONS:
            raise self.refusal(f"has addition_embed_type '{addition}'; allowed: none, or text_time")
        if self.pipeline.index.get("requires_aesthetics_score"):
            raise self.refusal("is a refiner, told an aesthetic score; allowed: base models")

    @property
    def extra_large(self) -> bool:
        """Whether it is told a pooled text and sizes, as SDXL is."""
        return self.config.get("addition_embed_type") == "text_time"

    def encoded(self, pipe: Any, texts: list[str], device: torch.device) -> Rows:
        found = pipe.encode_prompt(texts, device=device, num_images_per_prompt=1, do_classifier_free_guidance=False)
        return {TEXTS: found[0], POOLED: found[2]} if self.extra_large else {TEXTS: found[0]}

    def answer(self, net: nn.Module, asked: Asked) -> Tensor:
        dtype, added = dtype_of(net), None
        if self.extra_large:
            side = self.resolution
            # The original size, where the crop begins, and the size that is asked for.
            sizes = torch.tensor([side, side, 0, 0, side, side], dtype=dtype, device=asked.x_t.device)
            added = {"text_embeds": asked.known[POOLED].to(dtype), "time_ids": sizes.expand(len(asked.x_t), -1)}
        return self.without_variance(
            net(asked.x_t.to(dtype), asked.told, asked.known[TEXTS].to(dtype), added_cond_kwargs=added).sample
        )
