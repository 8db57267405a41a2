"""Text-to-image networks: Stable Diffusion 1, 2 and XL, Stable Diffusion 3 (2403.03206) and Flux."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar

import torch
from diffusers.models.transformers.transformer_flux import FluxTransformer2DModel
from diffusers.models.transformers.transformer_sd3 import SD3Transformer2DModel
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel
from torch import Tensor, nn

from unequal.diffusion.schedule import REFERENCE_TIMESTEPS
from unequal.errors import UserError
from unequal.profiler.family import Family, Rows, TextEncoder
from unequal.profiler.pipeline_folder import errors_in_one_line

#: Names of encoded captions.
TEXTS, POOLED = "prompt_embeds", "pooled_prompt_embeds"
#: Beginnings of the names of parts that captions go through.
TEXT_ENCODER, TOKENIZER = "text_encoder", "tokenizer"
#: Endings of the names of the first of a LoRA's two matrices, one pair a layer.
DOWN = (".lora_A.weight", ".down.weight")


class TextToImage(Family):
    """A pipeline whose class encodes captions and takes LoRAs."""

    takes_texts = True
    #: Supported classes of pipelines.
    pipelines: ClassVar[tuple[str, ...]]

    def read(self) -> None:
        if (name := self.pipeline.index["_class_name"]) not in self.pipelines:
            raise self.refusal(f"stands in a {name}; allowed: {', '.join(self.pipelines)}")
        for part in self.pipeline.parts:
            if part.startswith(TEXT_ENCODER):
                self.pipeline.check_weights(part)

    @abstractmethod
    def encoded(self, pipe: Any, texts: list[str], device: torch.device) -> Rows:
        """Captions as the pipeline encodes them for its network, [B, …] each."""

    def text_encoder(self, device: torch.device, dtype: torch.dtype) -> TextEncoder:
        # Some pipelines read the network's configuration, and nothing else of it.
        pipe = self.pipe(self.without_weights(dtype), self.text_parts(device, dtype))

        @torch.no_grad()
        def encode(texts: Sequence[str]) -> Rows:
            with errors_in_one_line(f"{self.pipeline.name}: captions cannot be encoded"):
                return self.encoded(pipe, list(texts), device)

        return encode

    def without_weights(self, dtype: torch.dtype) -> nn.Module:
        with torch.device("meta"):
            return nn.Module.to(self.kind.from_config(self.config), dtype)

    @property
    def pipeline_kind(self) -> Any:
        """The pipeline's class; at its import image processors warn of missing libraries that it does not need."""
        import diffusers

        with errors_in_one_line(self.pipeline.name):
            return getattr(diffusers, self.pipeline.index["_class_name"])

    def text_parts(self, device: torch.device, dtype: torch.dtype) -> dict[str, Any]:
        """Text encoders on a device, and tokenizers."""
        parts: dict[str, Any] = {}
        for part in self.pipeline.parts:
            if part.startswith(TEXT_ENCODER):
                parts[part] = self.pipeline.network(part, self.pipeline.part_class(part), dtype).to(device)
            elif part.startswith(TOKENIZER):
                parts[part] = self.pipeline.other_part(part)
        return parts

    def pipe(self, net: nn.Module, texts: Mapping[str, Any]) -> Any:
        """The pipeline around a network and what captions go through, without other large parts.

        Made by its class, not by its loader, which would read the index and may run code of the folder.
        """
        parts = {name: None for name, value in self.pipeline.index.items() if isinstance(value, list)}
        parts |= {self.part: net, "scheduler": self.pipeline.other_part("scheduler")} | dict(texts)
        flags = {name: value for name, value in self.pipeline.index.items() if isinstance(value, bool)}
        with errors_in_one_line(self.pipeline.name):
            known = signature(self.pipeline_kind.__init__).parameters
            return self.pipeline_kind(**{name: part for name, part in (parts | flags).items() if name in known})

    def check_adapter(self, lora: Path) -> None:
        with errors_in_one_line(f"--lora {lora}"):
            state = self.pipeline_kind.lora_state_dict(str(lora), use_safetensors=True, local_files_only=True)
        names = state[0] if isinstance(state, tuple) else state
        if others := [name for name in names if name.startswith(TEXT_ENCODER)]:
            raise UserError(f"--lora {lora}: also changes a text encoder ('{others[0]}'); allowed: the network alone")
        if not any(name.startswith(f"{self.part}.") for name in names):
            raise UserError(f"--lora {lora}: nothing in it for the {self.title}, as '{self.part}.…'")
        net = self.without_weights(torch.float32)
        self.adapt(net, lora)
        theirs = sum(name.startswith(f"{self.part}.") and name.endswith(DOWN) for name in names)
        ours = sum(".lora_A." in name for name, _ in net.named_parameters())
        if ours < theirs:
            raise UserError(f"--lora {lora}: {theirs - ours} of its {theirs} layers are none of the {self.title}'s")

    def adapt(self, net: nn.Module, lora: Path) -> None:
        pipe = self.pipe(net, {})
        with errors_in_one_line(f"--lora {lora}"):
            pipe.load_lora_weights(str(lora), use_safetensors=True, local_files_only=True)
        net.eval().requires_grad_(False)


#: Supported conditions next to time and text: none, or a pooled text with sizes.
ADDITIONS = (None, "text_time")
#: Keys of the configuration for further conditions.
MORE = ("class_embed_type", "num_class_embeds", "encoder_hid_dim_type", "time_cond_proj_dim")


class UNet2DCondition(TextToImage):
    """Stable Diffusion's pipelines."""

    part, kind = "unet", UNet2DConditionModel
    pipelines = ("StableDiffusionPipeline", "StableDiffusionXLPipeline")

    def read(self) -> None:
        super().read()
        if further := [name for name in MORE if self.config.get(name) is not None]:
            raise self.refusal(f"takes more than time and captions ({further[0]}); allowed: these alone")
        if (addition := self.config.get("addition_embed_type")) not in ADDITIONS:
            raise self.refusal(f"has addition_embed_type '{addition}'; allowed: none, or text_time")
        if self.pipeline.index.get("requires_aesthetics_score"):
            raise self.refusal("is a refiner, which takes an aesthetic score; allowed: base models")

    @property
    def extra_large(self) -> bool:
        """Say whether it takes a pooled text and sizes, as SDXL does."""
        return self.config.get("addition_embed_type") == "text_time"

    def encoded(self, pipe: Any, texts: list[str], device: torch.device) -> Rows:
        prompt = pipe.encode_prompt(texts, device=device, num_images_per_prompt=1, do_classifier_free_guidance=False)
        return {TEXTS: prompt[0], POOLED: prompt[2]} if self.extra_large else {TEXTS: prompt[0]}

    def predict(self, net: nn.Module, x_t: Tensor, timestep: Tensor, conditions: Mapping[str, Tensor]) -> Tensor:
        added = None
        if self.extra_large:
            side = self.resolution
            # The original size, the corner of the crop, and the requested size.
            sizes = torch.tensor([side, side, 0, 0, side, side], dtype=x_t.dtype, device=x_t.device)
            added = {"text_embeds": conditions[POOLED], "time_ids": sizes.expand(len(x_t), -1)}
        return net(x_t, timestep, conditions[TEXTS], added_cond_kwargs=added).sample


class SD3(TextToImage):
    """StableDiffusion3Pipeline."""

    part, kind = "transformer", SD3Transformer2DModel
    pipelines = ("StableDiffusion3Pipeline",)

    def check(self) -> None:
        super().check()
        largest = int(self.config["pos_embed_max_size"]) * self.multiple * self.factor
        if self.resolution > largest:
            raise UserError(f"--resolution {self.resolution}: the {self.title} knows places of up to {largest} pixels")

    def encoded(self, pipe: Any, texts: list[str], device: torch.device) -> Rows:
        prompt, _, pooled, _ = pipe.encode_prompt(texts, None, None, device=device, do_classifier_free_guidance=False)
        return {TEXTS: prompt, POOLED: pooled}

    def predict(self, net: nn.Module, x_t: Tensor, timestep: Tensor, conditions: Mapping[str, Tensor]) -> Tensor:
        return net(
            hidden_states=x_t,
            encoder_hidden_states=conditions[TEXTS],
            pooled_projections=conditions[POOLED],
            timestep=timestep,
        ).sample


PATCH = 2
#: Latent pixels a side that Flux's pipeline samples by default; the configuration names no size.
LATENT_SIDE = 128


class Flux(TextToImage):
    """FluxPipeline."""

    part, kind = "transformer", FluxTransformer2DModel
    pipelines = ("FluxPipeline",)

    def read(self) -> None:
        super().read()
        self.input_channels, self.multiple, self.side = self.input_channels // PATCH**2, PATCH, LATENT_SIDE

    def encoded(self, pipe: Any, texts: list[str], device: torch.device) -> Rows:
        prompt, pooled, _ = pipe.encode_prompt(texts, None, device=device)
        return {TEXTS: prompt, POOLED: pooled}

    def predict(self, net: nn.Module, x_t: Tensor, timestep: Tensor, conditions: Mapping[str, Tensor]) -> Tensor:
        (count, _, height, width), texts = x_t.shape, conditions[TEXTS]
        like: dict[str, Any] = {"device": x_t.device, "dtype": x_t.dtype}
        guidance = torch.full((count,), self.guidance, device=x_t.device)
        answer = net(
            hidden_states=packed(x_t),
            timestep=(timestep / REFERENCE_TIMESTEPS).to(x_t.dtype),
            guidance=guidance if self.config.get("guidance_embeds") else None,
            pooled_projections=conditions[POOLED],
            encoder_hidden_states=texts,
            txt_ids=torch.zeros(texts.shape[1], 3, **like),
            img_ids=places(height // PATCH, width // PATCH).to(**like),
        )
        return unpacked(answer.sample, height, width)


def packed(latents: Tensor) -> Tensor:
    """Patch latents [B, C, H, W] into rows, [B, H/2·W/2, 4·C]."""
    patches = latents.unflatten(3, (-1, PATCH)).unflatten(2, (-1, PATCH))
    return patches.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)


def unpacked(rows: Tensor, height: int, width: int) -> Tensor:
    """Undo `packed`, [B, C, H, W]."""
    patches = rows.unflatten(1, (height // PATCH, width // PATCH)).unflatten(3, (-1, PATCH, PATCH))
    return patches.permute(0, 3, 1, 4, 2, 5).flatten(4).flatten(2, 3)


def places(rows: int, columns: int) -> Tensor:
    """Position of each patch: 0, its row, its column, [rows·columns, 3]."""
    grid = torch.cartesian_prod(torch.arange(rows), torch.arange(columns))
    return torch.cat([torch.zeros(len(grid), 1, dtype=grid.dtype), grid], dim=1)
