"""What all kinds of pipelines answer: how noise was added in training, what the network sees, and what it says."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, cast

import torch
from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL
from diffusers.models.autoencoders.vq_model import VQModel
from torch import Tensor, nn

from unequal.data.prepared import to_model_range
from unequal.diffusion.predictions import Prediction
from unequal.errors import UserError
from unequal.latents.autoencoder import Autoencoder, Net, latent_shape, on_device
from unequal.profiler.document import Betas, Shifted
from unequal.profiler.kept import Rows
from unequal.profiler.pipelines import PipelineFolder
from unequal.profiler.schedules import schedule_of

AUTOENCODERS: dict[str, type[Any]] = {"AutoencoderKL": AutoencoderKL, "VQModel": VQModel}
#: Where pipelines keep theirs.
PLACES = ("vae", "vqvae")
KINDS_OF_IMAGES = (1, 3)
#: Images that go through an autoencoder at once: memory is bounded by it.
ENCODED = 4
#: Makes what the network is told of texts.
TextEncoder = Callable[[Sequence[str]], Rows]
LATENT, LABEL = "latent", "label"


@dataclass(frozen=True)
class Asked:
    """What a network is asked of a batch.

    Attributes:
        x_t: noisy images or latents, [B, C, H, W] float32.
        told: its times as the schedule tells them, [B].
        known: of the images: rows of encoded texts, labels.
    """

    x_t: Tensor
    told: Tensor
    known: Mapping[str, Tensor]


class Family(ABC):
    """A pipeline with a network of one kind; its weights are read only when they are asked for.

    Args:
        pipeline: its folder.
        resolution: height and width of images in pixels; None: the size that the configuration tells.

    Raises:
        UserError: a configuration that this kind does not have.
    """

    #: The part of the pipeline that is the network, and its class.
    part: ClassVar[str]
    kind: ClassVar[type[Any]]
    #: Whether it is told texts.
    told_texts: ClassVar[bool] = False
    #: What a network that was distilled for guidance is told of it.
    guidance: float = 1.0

    def __init__(self, pipeline: PipelineFolder, resolution: int | None = None) -> None:
        self.pipeline = pipeline
        self.config = self.loaded(self.part, self.kind)
        self.latents_of = next((part for part in PLACES if part in pipeline.parts), None)
        self.resolution = resolution or self.default_resolution
        self.check()
        self.schedule, self.prediction = self.process()

    def loaded(self, part: str, kind: type[Any]) -> dict[str, Any]:
        """The configuration of a network. Raises UserError where it, or its weights, are missing."""
        self.pipeline.config(part)
        self.pipeline.check_weights(part)
        return dict(kind.load_config(str(self.pipeline.path), subfolder=part, local_files_only=True))

    def check(self) -> None:
        """Raise UserError where the configuration is of a kind that is not profiled, or does not fit the images."""
        if self.image_channels not in KINDS_OF_IMAGES:
            raise self.refusal(f"is for images of {self.image_channels} channels; allowed: 1 (grey) or 3 (RGB)")
        if self.input_channels != self.shape[0]:
            raise self.refusal(f"sees {self.input_channels} channels, of which {self.shape[0]} are the image's")
        if self.shape[1] % self.multiple:
            whole = self.multiple * self.factor
            raise UserError(f"--resolution {self.resolution}: not a multiple of {whole}, as the {self.title} needs")

    def refusal(self, what: str) -> UserError:
        """A refusal of the network."""
        return UserError(f"{self.pipeline.name}: its {self.kind.__name__} {what}")

    @property
    def title(self) -> str:
        """The network's class."""
        return self.kind.__name__

    @property
    def input_channels(self) -> int:
        """Channels that the network sees."""
        return int(self.config["in_channels"])

    @property
    def multiple(self) -> int:
        """Of which the side of what the network sees has to be one: that of a patch, or of what it halves to."""
        return 1

    @property
    def classes(self) -> int | None:
        """How many classes the network is told of; None: it is told none."""
        return None

    @property
    def null_class(self) -> int | None:
        """What stands for no class; None: there is no such."""
        return None

    @cached_property
    def autoencoder_config(self) -> dict[str, Any] | None:
        """The autoencoder's; None: the network sees pixels. Raises UserError for an autoencoder of another kind."""
        if self.latents_of is None:
            return None
        if (kind := self.pipeline.parts[self.latents_of]) not in AUTOENCODERS:
            raise UserError(f"{self.pipeline.name}: its autoencoder is a {kind}; allowed: {', '.join(AUTOENCODERS)}")
        return self.loaded(self.latents_of, AUTOENCODERS[kind])

    @property
    def factor(self) -> int:
        """Pixels of an image for one that the network sees, a side."""
        config = self.autoencoder_config
        return 1 if config is None else int(2 ** (len(config["block_out_channels"]) - 1))

    @property
    def default_resolution(self) -> int:
        """The size of images by the network's configuration. Raises UserError where that tells none."""
        size = self.config.get("sample_size")
        side = size[0] if isinstance(size, (list, tuple)) else size
        if not side:
            raise self.refusal("does not tell the size of its images; say it by --resolution")
        return int(side) * self.factor

    @property
    def image_channels(self) -> int:
        """1 or 3."""
        return int((self.autoencoder_config or self.config)["in_channels"])

    @cached_property
    def shape(self) -> tuple[int, int, int]:
        """[C, H, W] of what the network sees. Raises UserError where no image of that size becomes such."""
        config = self.autoencoder_config
        if config is None:
            return self.image_channels, self.resolution, self.resolution
        if self.resolution % self.factor:
            raise UserError(f"--resolution {self.resolution}: not a multiple of {self.factor}, as latents need")
        side = self.resolution // self.factor
        return int(config.get("vq_embed_dim") or config["latent_channels"]), side, side

    @property
    def tokens(self) -> int:
        """Of an image, in patches of 2 × 2; shifts of flows may go by it."""
        return (self.shape[1] // 2) * (self.shape[2] // 2)

    def process(self) -> tuple[Betas | Shifted, Prediction]:
        """The schedule of the noise, and what the network predicts."""
        import diffusers

        config = self.pipeline.config("scheduler")
        kind = getattr(diffusers, str(config.get("_class_name")), None)
        known = hasattr(kind, "from_config")
        try:
            whole = {**kind.from_config(config).config, "_class_name": kind.__name__} if known and kind else config
            return schedule_of(whole, self.pipeline.name, self.tokens)
        except (TypeError, ValueError, KeyError, NotImplementedError, RuntimeError) as error:
            raise UserError(f"{self.pipeline.name}: its scheduler cannot be read ({type(error).__name__})") from None

    def image_encoder(self, device: torch.device) -> Callable[[Tensor], Tensor]:
        """uint8 [B, C, H, W] → what the network sees; latents are the means that the autoencoder gives, in float32."""
        if self.latents_of is None:
            return to_model_range
        kind = AUTOENCODERS[self.pipeline.parts[self.latents_of]]
        net = cast(Net, self.pipeline.network(self.latents_of, kind, torch.float32))
        latent_shape(net, self.resolution, self.image_channels, f"'{self.pipeline.name}'")
        return Autoencoder(on_device(net, device), ENCODED).encode

    def text_encoder(self, device: torch.device, dtype: torch.dtype) -> TextEncoder:
        """Texts → rows of what the network is told of them."""
        raise NotImplementedError(f"{self.title} is told no texts")

    def network(self, device: torch.device, dtype: torch.dtype) -> nn.Module:
        """The network, on a device. Raises UserError where it is not whole."""
        return nn.Module.to(self.pipeline.network(self.part, self.kind, dtype), device)

    def check_adapter(self, lora: Path) -> None:
        """Raise UserError where a LoRA is none of this network's."""
        raise self.refusal("takes no LoRA here; allowed: text-to-image networks")

    def adapt(self, net: nn.Module, lora: Path) -> None:
        """Add a LoRA to a network. Raises UserError where it is none of this network's."""
        self.check_adapter(lora)

    @abstractmethod
    def answer(self, net: nn.Module, asked: Asked) -> Tensor:
        """What the network predicts, [B, C, H, W] float32."""

    def without_variance(self, answer: Tensor) -> Tensor:
        """An answer without the half that tells a learned variance."""
        return answer[:, : self.shape[0]].float()


def dtype_of(net: nn.Module) -> torch.dtype:
    """What a network computes in."""
    return next(net.parameters()).dtype
