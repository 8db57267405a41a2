"""Text-to-image networks: told of captions what the text encoders of their pipelines make of them."""

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn

from unequal.errors import UserError
from unequal.profiler.families.family import Family, TextEncoder
from unequal.profiler.kept import Rows
from unequal.profiler.pipelines import errors_in_one_line

#: Beginnings of the names of parts that captions go through.
TEXT_ENCODER = "text_encoder"
ENCODERS = (TEXT_ENCODER, "tokenizer")
#: Endings of the names of the first of a LoRA's two matrices, one pair a layer.
DOWN = (".lora_A.weight", ".down.weight")


class OfTexts(Family):
    """A pipeline whose class encodes texts, and takes LoRAs."""

    told_texts = True
    #: Classes of pipelines that do so in the way that is known here.
    pipelines: ClassVar[tuple[str, ...]]

    def check(self) -> None:
        super().check()
        if (name := self.pipeline.index["_class_name"]) not in self.pipelines:
            raise self.refusal(f"stands in a {name}; allowed: {', '.join(self.pipelines)}")
        for part in self.pipeline.parts:
            if part.startswith(TEXT_ENCODER):
                self.pipeline.check_weights(part)

    @abstractmethod
    def encoded(self, pipe: Any, texts: list[str], device: torch.device) -> Rows:
        """What the network is told of texts, by the pipeline's own encoding, [B, …] each."""

    def text_encoder(self, device: torch.device, dtype: torch.dtype) -> TextEncoder:
        # Some pipelines ask the network's configuration, and nothing else of it.
        pipe = self.pipe(self.without_weights(dtype), True, dtype)
        for name, part in pipe.components.items():
            if name.startswith(TEXT_ENCODER) and part is not None:
                part.to(device)

        @torch.no_grad()
        def encode(texts: Sequence[str]) -> Rows:
            with errors_in_one_line(f"{self.pipeline.name}: captions cannot be encoded"):
                return self.encoded(pipe, list(texts), device)

        return encode

    def without_weights(self, dtype: torch.dtype) -> nn.Module:
        """The network's layers and shapes alone, which take no memory."""
        with torch.device("meta"):
            return nn.Module.to(self.kind.from_config(self.config), dtype)

    @property
    def pipeline_kind(self) -> Any:
        """The pipeline's class; at its import image processors warn of what they miss, and it needs none of them."""
        import diffusers

        with errors_in_one_line(self.pipeline.name):
            return getattr(diffusers, self.pipeline.index["_class_name"])

    def pipe(self, net: nn.Module, with_texts: bool, dtype: torch.dtype) -> Any:
        """The pipeline around a network, with its text encoders or without, and nothing else that is large."""
        kept = ("scheduler", *(name for name in self.pipeline.parts if with_texts and name.startswith(ENCODERS)))
        left_out = {name: None for name, value in self.pipeline.index.items() if isinstance(value, list)}
        others = {name: None for name in left_out if name not in kept} | {self.part: net}
        with errors_in_one_line(f"{self.pipeline.name}: text encoders"):
            return self.pipeline_kind.from_pretrained(
                str(self.pipeline.path), **others, torch_dtype=dtype, use_safetensors=True, local_files_only=True
            )

    def check_adapter(self, lora: Path) -> None:
        with errors_in_one_line(f"--lora {lora}"):
            found = self.pipeline_kind.lora_state_dict(str(lora), use_safetensors=True, local_files_only=True)
        names = found[0] if isinstance(found, tuple) else found
        if others := [name for name in names if name.startswith(TEXT_ENCODER)]:
            raise UserError(f"--lora {lora}: changes a text encoder, too ('{others[0]}'); allowed: the network alone")
        if not any(name.startswith(f"{self.part}.") for name in names):
            raise UserError(f"--lora {lora}: nothing in it for the {self.title}, as '{self.part}.…'")
        net = self.without_weights(torch.float32)
        self.adapt(net, lora)
        theirs = sum(name.startswith(f"{self.part}.") and name.endswith(DOWN) for name in names)
        ours = sum(".lora_A." in name for name, _ in net.named_parameters())
        if ours < theirs:
            raise UserError(f"--lora {lora}: {theirs - ours} of its {theirs} layers are none of the {self.title}'s")

    def adapt(self, net: nn.Module, lora: Path) -> None:
        pipe = self.pipe(net, False, next(net.parameters()).dtype)
        with errors_in_one_line(f"--lora {lora}"):
            pipe.load_lora_weights(str(lora), use_safetensors=True, local_files_only=True)
        net.eval().requires_grad_(False)
