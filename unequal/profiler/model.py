"""What a model is to whoever profiles it, and finding the one in a folder or on the Hub."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import torch
from torch import Tensor

from unequal.errors import UserError, first_line
from unequal.files import read_json
from unequal.models.finite import check_finite
from unequal.profiler.schedule import Trained, trained_by
from unequal.settings.outside import COMMIT, HUB_ID

#: Where pipelines keep the network.
PLACES = ("unet", "transformer")
#: Class of a network in diffusers → the module that knows it, by a function `load`.
FAMILIES = {"UNet2DModel": "unet2d", "DiTTransformer2DModel": "dit"}
#: Files of a pipeline that are asked for on the Hub: no pickles.
SAFE = ("*.json", "*.safetensors", "*.txt", "*.model")

Told = Literal["nothing", "labels", "captions"]
N = TypeVar("N", bound=torch.nn.Module)


class Model(Protocol):
    """A network with what lies around it.

    Attributes:
        family: its class in diffusers.
        trained: its schedule, and what it predicts.
        pixels: channels and width of the images it was trained on.
        shape: [C, H, W] of what the network sees: such an image, or its latent.
        told: what it is told beside the time.
        classes: how many labels it knows; None: it is told none.
    """

    family: str
    trained: Trained
    pixels: tuple[int, int]
    shape: tuple[int, int, int]
    told: Told
    classes: int | None

    def encode(self, images: Tensor) -> Tensor:
        """What the network sees of images uint8 [B, C, H, W]: themselves, uint8, or latents as it knows them."""

    def conditions(self, described: Sequence[Any]) -> Mapping[str, Tensor]:
        """What it is told of images with these labels or captions, by name, [B, …] each."""

    def settle(self) -> None:
        """Nothing will be encoded any more: only the network stays on the device."""

    def answer(self, x_t: Tensor, told: Tensor, conditions: Mapping[str, Tensor]) -> Tensor:
        """Its prediction [B, C, H, W] for noisy images that are told so, without a learned variance."""


@dataclass(frozen=True)
class Place:
    """Where a model lies.

    Attributes:
        name: as it was named.
        folder: of the pipeline.
        network: folder of the network in it.
        family: its class.
    """

    name: str
    folder: Path
    network: Path
    family: str


def find(name: str) -> Place:
    """The model of that name. Raises UserError where there is none, or of a kind that is not known here."""
    folder = Path(name) if Path(name).exists() else of_hub(name)
    if not folder.is_dir():
        raise UserError(f"{name}: a file; allowed: the folder of a diffusers pipeline, or owner/name@commit on the Hub")
    there = [folder / place for place in PLACES if (folder / place / "config.json").is_file()]
    if not there:
        raise UserError(
            f"{name}: no diffusion model: neither {' nor '.join(f'{place}/config.json' for place in PLACES)} in it; "
            "allowed: the folder of a diffusers pipeline"
        )
    config = read_json(there[0] / "config.json")
    family = config.get("_class_name") if isinstance(config, dict) else None
    if family not in FAMILIES:
        raise UserError(f"{there[0]}: a {family}, which cannot be profiled yet; allowed: {', '.join(FAMILIES)}")
    return Place(name, folder, there[0], family)


def of_hub(name: str) -> Path:
    """The snapshot of a model on the Hub, downloaded where it is not kept yet. Raises UserError."""
    found = HUB_ID.fullmatch(name)
    if found is None:
        raise UserError(f"{name}: no such folder; allowed: one that is there, or owner/name@commit on the Hub")
    if COMMIT.fullmatch(found["revision"] or "") is None:
        raise UserError(
            f"{name}: no such folder; on the Hub it needs a commit, {found['id']}@ and its 40 hexadecimal digits, "
            "since what a branch or a tag names may change"
        )
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(found["id"], revision=found["revision"], allow_patterns=list(SAFE)))
    except Exception as error:  # the Hub says in many ways that something is not there, or cannot be reached
        raise UserError(f"{name}: cannot be fetched from the Hub: {first_line(error)}") from None


def load(place: Place, device: torch.device, dtype: torch.dtype) -> Model:
    """The model at a place. Raises UserError where it does not load."""
    module = import_module(f"unequal.profiler.families.{FAMILIES[place.family]}")
    make: Callable[[Place, Trained, torch.device, torch.dtype], Model] = module.load
    return make(place, trained_by(place.folder), device, dtype)


def network_of(kind: type[N], folder: Path, device: torch.device, dtype: torch.dtype) -> N:
    """A module of diffusers or transformers from a folder, for asking alone; its weights are read as tensors only.

    Raises:
        UserError: it does not load, lacks weights, or they are not finite.
    """
    try:
        net, told = kind.from_pretrained(  # type: ignore[attr-defined]
            folder, use_safetensors=True, output_loading_info=True, torch_dtype=dtype
        )
    except Exception as error:  # of files that hold no such module, its library says so in many ways
        raise UserError(f"{folder}: no {kind.__name__} that loads: {first_line(error)}") from None
    if missing := sorted(told["missing_keys"]):
        raise UserError(f"{folder}: lacks {len(missing)} weights of its {kind.__name__}: '{missing[0]}'")
    check_finite(net.state_dict(), str(folder))
    whole: N = net.eval().requires_grad_(False).to(device)
    return whole
