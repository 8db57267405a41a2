"""The prepared data set: one array in NCHW (uint8 images or float32 latents), its labels, and a JSON of facts.

Pixels are stored as uint8 (0 … 255) and passed to a model as float32 (−1 … 1); latents are stored as they are passed.
"""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from unequal.errors import UserError
from unequal.runtime.files import SHA256, read_json, require
from unequal.settings.strict import Strict, validate

HALF_RANGE = 127.5
IMAGES = "images.npy"
LABELS = "labels.npy"
FACTS = "facts.json"
REMEDY = "prepare the data again"
#: Half of a part → its images: one half selects, the other one reports.
HALVES = {"": slice(None), "choice": slice(0, None, 2), "report": slice(1, None, 2)}
Pair = Annotated[list[int], Field(min_length=2, max_length=2)]
Triple = Annotated[list[int], Field(min_length=3, max_length=3)]


def to_model_range(images: Tensor) -> Tensor:
    """uint8 of any shape → float32 in [−1, 1], 0 to −1 and 255 to 1; floats are latents and stay as they are."""
    return images if images.is_floating_point() else images.float() / HALF_RANGE - 1


def to_uint8(images: Tensor) -> Tensor:
    """Float of any shape → the nearest of the 256 values; what lies outside [−1, 1] is clamped."""
    return ((images.float() + 1) * HALF_RANGE).round().clamp(0, 255).to(torch.uint8)


def tensor_of(images: np.ndarray) -> Tensor:
    """Images or labels as a tensor over the same memory and of its type; for mapped files, never written to."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(images)


def chosen(labels: Tensor | None, index: Tensor, device: torch.device) -> Tensor | None:
    """The labels [B] of the images with these indices, where there are any."""
    return None if labels is None else labels[index.to(labels.device)].to(device)


def check_classes(condition: object, known: int | None) -> None:
    """Raise UserError where data of so many classes, None for unlabelled ones, are not those of a condition's keys."""
    classes = getattr(condition, "classes", None)
    if classes is not None and known != classes:
        has = "without labels" if known is None else f"of {known} classes"
        allowed = "none" if known is None else f"{known}, or kind none"
        raise UserError(f"network.condition.classes: {classes}; the data are {has}, allowed: {allowed}")


class Split(Strict):
    """First index and index after the last, of either part."""

    train: Pair
    holdout: Pair


class Copies(Strict):
    """Images that equal an earlier one of the same part; no image stands in both parts."""

    train: int = Field(ge=0)
    holdout: int = Field(ge=0)


class Facts(Strict):
    """Content of facts.json."""

    n: int = Field(ge=1, description="images, held-out ones included")
    shape: Triple = Field(description="channels, height, width")
    range: Pair | Annotated[list[float], Field(min_length=2, max_length=2)] = Field(
        description="smallest and largest value"
    )
    source: str
    labels: int | None = Field(description="number of classes; null without labels")
    classes: list[str] | None = Field(default=None, description="their names, in the order of the labels 0, 1, …")
    numbered: bool = Field(
        default=False, exclude_if=lambda numbered: not numbered, description="their numbers are the same everywhere"
    )
    converted: dict[str, int] = Field(default_factory=dict, description="what was converted with loss → images")
    left_out: int = Field(default=0, description="files and images of the source that do not count")
    copies: Copies = Field(default_factory=lambda: Copies(train=0, holdout=0))
    sha256: str = Field(pattern=SHA256, description="of the values' bytes in stored order")
    split: Split
    autoencoder: str | None = Field(default=None, description="hash of the one that made latents of the images")


@dataclass(frozen=True, eq=False)
class PreparedData:
    """Images and labels, mapped from disk and read-only; training images first, held-out ones after them.

    Attributes:
        images: uint8 [n, C, H, W], or their latents, float32.
        labels: int64 [n], or None.
        facts: the content of facts.json.
        path: the folder of the three files.
    """

    images: np.ndarray
    labels: np.ndarray | None
    facts: dict[str, Any]
    path: Path

    @classmethod
    def open(cls, path: Path | str) -> Self:
        """Open a folder that `unequal.data.preparation.prepare` or `unequal.data.latents.encode` has written.

        Raises:
            UserError: a file is missing, cut short, or another one than the facts describe. Values are not compared
                with their hash: a stage's inputs are hashed as a whole, and a run that finds others begins anew.
        """
        path = Path(path)
        facts = validate(Facts, read_json(path / FACTS), path / FACTS)
        dtype = np.uint8 if facts.autoencoder is None else np.float32
        images = mapped(path / IMAGES, dtype, (facts.n, *facts.shape))
        labels = None if facts.labels is None else mapped_labels(path / LABELS, facts.n, facts.labels)
        return cls(images, labels, facts.model_dump(), path)

    @property
    def train(self) -> np.ndarray:
        """The training images, [n_train, C, H, W]."""
        return self.images[slice(*self.facts["split"]["train"])]

    @property
    def holdout(self) -> np.ndarray:
        """The held-out images, [n − n_train, C, H, W]; there may be none."""
        return self.images[slice(*self.facts["split"]["holdout"])]

    @property
    def holdout_choice(self) -> np.ndarray:
        """Every other held-out image: for what is chosen by held-out images, a budget or a rate."""
        return self.holdout[HALVES["choice"]]

    @property
    def holdout_report(self) -> np.ndarray:
        """The other held-out images, which select nothing: for reported figures."""
        return self.holdout[HALVES["report"]]

    def labels_of(self, part: str) -> Tensor | None:
        """Labels of `train`, `holdout`, `holdout_choice` or `holdout_report`, int64, where there are any."""
        if self.labels is None:
            return None
        split, _, half = part.partition("_")
        return tensor_of(self.labels[slice(*self.facts["split"][split])][HALVES[half]])


def mapped_labels(path: Path, count: int, classes: int) -> np.ndarray:
    """Map int64 labels [count] in 0 … classes − 1. Raises UserError."""
    labels = mapped(path, np.int64, (count,))
    if labels.min() < 0 or labels.max() >= classes:
        raise UserError(f"{path}: labels {labels.min()} … {labels.max()}, {FACTS} allows 0 … {classes - 1}; {REMEDY}")
    return labels


def mapped(path: Path, dtype: type[np.generic], shape: tuple[int, ...]) -> np.ndarray:
    """Map an .npy of exactly this type, shape and file size. Raises UserError."""
    try:
        content = np.load(require(path), mmap_mode="r", allow_pickle=False)
    except UserError:
        raise
    except Exception as error:  # numpy has many ways to say that a file is damaged
        raise UserError(f"{path}: damaged or cut short ({' '.join(str(error).split())}); {REMEDY}") from None
    if not isinstance(content, np.memmap) or content.dtype != dtype or content.shape != shape:
        raise UserError(f"{path}: not the {dtype.__name__} array of shape {shape} that {FACTS} describes; {REMEDY}")
    if not content.flags.c_contiguous or content.offset + content.nbytes != path.stat().st_size:
        raise UserError(f"{path}: altered, bytes are left over or in another order; {REMEDY}")
    return content
