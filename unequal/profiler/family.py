"""The interface of all kinds of pipelines: noise schedule, input of the network, prediction. FAMILIES lists them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

from unequal.data.prepared import to_model_range
from unequal.diffusion.predictions import Prediction
from unequal.errors import UserError
from unequal.models.autoencoder import KINDS as AUTOENCODERS
from unequal.models.autoencoder import SUBFOLDERS, Autoencoder, Net, latent_shape
from unequal.profiler.document import Betas, Shifted
from unequal.profiler.pipeline_folder import PipelineFolder, errors_in_one_line
from unequal.profiler.schedules import schedule_of
from unequal.runtime.files import content_hash, settings_hash

KINDS_OF_IMAGES = (1, 3)
#: Images that go through an autoencoder at once: memory is bounded by it.
ENCODED = 4
#: Tensors by name, each with a row an image.
Rows = dict[str, Tensor]
#: Encodes captions for the network.
TextEncoder = Callable[[Sequence[str]], Rows]
LATENT, LABEL = "latent", "label"
#: Class of the network → module and class here; imported when needed.
FAMILIES = {
    "UNet2DModel": ("class_conditional", "UNet2D"),
    "DiTTransformer2DModel": ("class_conditional", "DiT"),
    "UNet2DConditionModel": ("text_to_image", "UNet2DCondition"),
    "SD3Transformer2DModel": ("text_to_image", "SD3"),
    "FluxTransformer2DModel": ("text_to_image", "Flux"),
}
#: Where pipelines keep their networks.
NETWORK_PARTS = ("unet", "transformer")


class Family(ABC):
    """A pipeline with a network of one kind; its weights are read only when they are asked for.

    Raises UserError for a configuration that this kind does not have.
    """

    #: The part of the pipeline that is the network, and its class.
    part: ClassVar[str]
    kind: ClassVar[type[Any]]
    #: Whether it takes captions.
    takes_texts: ClassVar[bool] = False
    #: Input of networks distilled for guidance.
    guidance: float = 1.0
    #: Number of classes that the network takes, and the label for no class; None: there is none.
    classes: int | None = None
    null_class: int | None = None

    def __init__(self, pipeline: PipelineFolder, resolution: int | None = None) -> None:
        self.pipeline = pipeline
        self.config = self.loaded(self.part, self.kind)
        self.latents_of = next((part for part in SUBFOLDERS if part in pipeline.parts), None)
        self.input_channels = int(self.config["in_channels"])
        #: Divisor of the side of the network's input: of its patches, or of its halvings.
        self.multiple = int(self.config.get("patch_size", 1))
        size = self.config.get("sample_size")
        self.side: int | None = size[0] if isinstance(size, (list, tuple)) else size
        self.read()
        if not (resolution or self.side):
            raise self.refusal("names no size of its images; give it by --resolution")
        self.resolution = resolution or int(self.side or 0) * self.factor
        self.check()
        self.schedule, self.prediction = self.process()

    def loaded(self, part: str, kind: type[Any]) -> dict[str, Any]:
        """The configuration of a network. Raises UserError where it, or its weights, are missing."""
        self.pipeline.config(part)
        self.pipeline.check_weights(part)
        return dict(kind.load_config(str(self.pipeline.path), subfolder=part, local_files_only=True))

    @abstractmethod
    def read(self) -> None:
        """Read what this kind has besides from its configuration. Raises UserError where that is not supported."""

    def check(self) -> None:
        """Raise UserError where the network does not fit the images."""
        if self.image_channels not in KINDS_OF_IMAGES:
            raise self.refusal(f"is for images of {self.image_channels} channels; allowed: 1 (grey) or 3 (RGB)")
        if self.input_channels != self.shape[0]:
            raise self.refusal(f"sees {self.input_channels} channels, of which {self.shape[0]} are the image's")
        if self.shape[1] % self.multiple:
            whole = self.multiple * self.factor
            raise UserError(f"--resolution {self.resolution}: not a multiple of {whole}, as the {self.title} needs")

    def refusal(self, what: str) -> UserError:
        return UserError(f"{self.pipeline.name}: its {self.kind.__name__} {what}")

    @property
    def title(self) -> str:
        return self.kind.__name__

    @cached_property
    def autoencoder_config(self) -> dict[str, Any] | None:
        """The autoencoder's; None: the network sees pixels. Raises UserError for an autoencoder of another kind."""
        if self.latents_of is None:
            return None
        if (kind := self.pipeline.parts[self.latents_of]) not in AUTOENCODERS:
            raise UserError(f"{self.pipeline.name}: its autoencoder is a {kind}; allowed: {', '.join(AUTOENCODERS)}")
        config = self.loaded(self.latents_of, AUTOENCODERS[kind])
        if scaled := [key for key in ("latents_mean", "latents_std") if config.get(key) is not None]:
            raise UserError(f"{self.pipeline.name}: its autoencoder has {scaled[0]}; allowed: one factor and shift")
        return config

    def autoencoder_hash(self) -> str | None:
        """A hash of the weights and scales of the autoencoder; None: there is none."""
        part, config = self.latents_of, self.autoencoder_config
        if part is None or config is None:
            return None
        weights = [content_hash(file) for file in sorted((self.pipeline.path / part).glob("*.safetensors"))]
        return settings_hash([weights, config["scaling_factor"], config.get("shift_factor")])

    @property
    def factor(self) -> int:
        """Pixels of an image for one that the network sees, a side."""
        config = self.autoencoder_config
        return 1 if config is None else int(2 ** (len(config["block_out_channels"]) - 1))

    @property
    def image_channels(self) -> int:
        return int((self.autoencoder_config or self.config)["in_channels"])

    @cached_property
    def shape(self) -> tuple[int, int, int]:
        """[C, H, W] of the network's input. Raises UserError for a size that does not divide."""
        config = self.autoencoder_config
        if config is None:
            return self.image_channels, self.resolution, self.resolution
        if self.resolution % self.factor:
            raise UserError(f"--resolution {self.resolution}: not a multiple of {self.factor}, as latents need")
        side = self.resolution // self.factor
        return int(config.get("vq_embed_dim") or config["latent_channels"]), side, side

    def process(self) -> tuple[Betas | Shifted, Prediction]:
        """The schedule, and what the network predicts, by the scheduler. Raises UserError."""
        import diffusers

        config = self.pipeline.config("scheduler")
        kind: Any = getattr(diffusers, str(config.get("_class_name")), None)
        try:
            known = hasattr(kind, "from_config")
            whole = {**kind.from_config(config).config, "_class_name": kind.__name__} if known else config
            patches = (self.shape[1] // 2) * (self.shape[2] // 2)  # of 2 × 2; shifts of flows may depend on them
            return schedule_of(whole, self.pipeline.name, patches)
        except (TypeError, ValueError, KeyError, NotImplementedError, RuntimeError) as error:
            raise UserError(f"{self.pipeline.name}: its scheduler cannot be read ({type(error).__name__})") from None

    def image_encoder(self, device: torch.device) -> Callable[[Tensor], Tensor]:
        """uint8 [B, C, H, W] → input of the network; latents are means of the autoencoder, in float32."""
        if self.latents_of is None:
            return to_model_range
        kind = AUTOENCODERS[self.pipeline.parts[self.latents_of]]
        net = cast(Net, self.pipeline.network(self.latents_of, kind, torch.float32))
        latent_shape(net, self.resolution, self.image_channels, f"'{self.pipeline.name}'")
        return Autoencoder(net.to(device), ENCODED).encode

    def text_encoder(self, device: torch.device, dtype: torch.dtype) -> TextEncoder:
        raise NotImplementedError(f"{self.title} takes no captions")

    def network(self, device: torch.device, dtype: torch.dtype) -> nn.Module:
        """The network, on a device. Raises UserError where it is not whole."""
        return nn.Module.to(self.pipeline.network(self.part, self.kind, dtype), device)

    def check_adapter(self, lora: Path) -> None:
        """Raise UserError where a LoRA is none of this network's."""
        raise self.refusal("takes no LoRA here; allowed: text-to-image networks")

    def adapt(self, net: nn.Module, lora: Path) -> None:
        """Add a LoRA to a network. Raises UserError where it is none of this network's."""
        self.check_adapter(lora)

    def answer(self, net: nn.Module, x_t: Tensor, timestep: Tensor, **conditions: Tensor) -> Tensor:
        """The prediction for noisy images or latents [B, C, H, W], without a learned variance, in float32."""
        dtype = next(net.parameters()).dtype
        given = {name: rows.to(dtype) if rows.is_floating_point() else rows for name, rows in conditions.items()}
        prediction = self.predict(net, x_t.to(dtype), timestep, given)[:, : self.shape[0]].float()
        if prediction.shape != x_t.shape:
            raise self.refusal(f"predicts {list(prediction.shape[1:])} for images of {list(x_t.shape[1:])}")
        return prediction

    @abstractmethod
    def predict(self, net: nn.Module, x_t: Tensor, timestep: Tensor, conditions: Mapping[str, Tensor]) -> Tensor:
        """Ask the network with images and conditions in its precision."""


def family_of(pipeline: PipelineFolder, resolution: int | None = None) -> Family:
    """The family of a pipeline. Raises UserError where its network is of none, or its configuration is unsound."""
    kinds = [pipeline.parts[part] for part in NETWORK_PARTS if part in pipeline.parts]
    allowed = ", ".join(FAMILIES)
    if len(kinds) != 1:
        networks = " and ".join(kinds) or "no denoising network"
        raise UserError(
            f"{pipeline.name}: a {pipeline.index['_class_name']} with {networks}; allowed: one of {allowed}"
        )
    if kinds[0] not in FAMILIES:
        raise UserError(f"{pipeline.name}: its network is a {kinds[0]}; allowed: {allowed}")
    module, name = FAMILIES[kinds[0]]
    with errors_in_one_line(pipeline.name):
        kind: type[Family] = getattr(import_module(f"{__package__}.{module}"), name)
        return kind(pipeline, resolution)
