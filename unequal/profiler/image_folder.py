"""Folders of images that a model is profiled on, with captions or classes."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from unequal.data.pictures import channels_first, decode, readable, without_alpha
from unequal.data.sources import ENDINGS, refuse_linked_twice
from unequal.errors import UserError
from unequal.files import files_below

METADATA = "metadata.jsonl"
#: Keys of a line of it.
FILE, TEXT = "file_name", "text"
#: How many of those at fault are named.
NAMED = 3


@dataclass(frozen=True)
class ImageFolder:
    """Image files of a folder, at any depth, in the order of their paths."""

    folder: Path
    files: tuple[Path, ...]

    @classmethod
    def below(cls, folder: Path) -> "ImageFolder":
        """All images of a folder. Raises UserError where there is no folder, or no image in it."""
        if not folder.is_dir():
            raise UserError(f"{folder}: {'not a folder' if folder.exists() else 'no such folder'}; needed: images")
        files = [file for file in files_below(folder) if file.suffix.lower() in ENDINGS]
        if not files:
            raise UserError(f"{folder}: no images in it; files that end in {', '.join(ENDINGS)} are read")
        refuse_linked_twice(files)
        return cls(folder, tuple(files))

    def __len__(self) -> int:
        return len(self.files)

    def pixels(self, rows: Sequence[int], channels: int, size: int) -> Tensor:
        """Some images, uint8 [B, C, size, size]. Raises UserError where one cannot be read."""
        return torch.from_numpy(np.stack([picture(self.files[row], channels, size) for row in rows]))

    def captions(self) -> list[str]:
        """A caption of each image. Raises UserError where some are missing."""
        listed = metadata(self.folder)
        found = [caption(file, listed) for file in self.files]
        if missing := [file for file, text in zip(self.files, found, strict=True) if text is None]:
            raise UserError(
                f"{self.folder}: captions missing of {len(missing)} of {len(self)} images ({names(missing)}); "
                f"needed: name.txt next to name.png, or {METADATA} with {FILE} and {TEXT}"
            )
        return [text for text in found if text is not None]

    @property
    def subfolders(self) -> list[str] | None:
        """The subfolder of each image, where all images lie one level deep, else None."""
        parts = [file.relative_to(self.folder).parts for file in self.files]
        return [part[0] for part in parts] if all(len(part) == 2 for part in parts) else None


def picture(file: Path, channels: int, size: int) -> np.ndarray:
    """An image as uint8 [C, size, size]: its largest centred square, scaled where it is of another size."""
    with readable(file):
        whole = without_alpha(decode(file), file).convert("L" if channels == 1 else "RGB")
        if whole.size != (size, size):
            whole = ImageOps.fit(whole, (size, size), Image.Resampling.LANCZOS)
        return channels_first(whole)


def metadata(folder: Path) -> dict[Path, str]:
    """Captions in the folder's list; empty: there is none. Raises UserError at a line of another form."""
    path = folder / METADATA
    if not path.is_file():
        return {}
    found = {}
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            found[folder / entry[FILE]] = caption_of(entry)
        except (ValueError, KeyError, TypeError):
            raise UserError(f"{path}: line {number} is no JSON object with {FILE} and {TEXT}, both texts") from None
    return found


def caption_of(entry: dict[str, object]) -> str:
    """The text of a line. Raises TypeError where it is none: null is no caption."""
    text = entry[TEXT]
    if not isinstance(text, str):
        raise TypeError(text)
    return text


def caption(file: Path, listed: dict[Path, str]) -> str | None:
    """The text next to an image, else that of the list; None: there is neither."""
    own = file.with_suffix(".txt")
    return own.read_text(encoding="utf-8", errors="replace").strip() if own.is_file() else listed.get(file)


def names(files: Sequence[Path]) -> str:
    """The first few of them, for a message."""
    return ", ".join(file.name for file in files[:NAMED]) + (", …" if len(files) > NAMED else "")


def refuse_shared(train: ImageFolder, held_out: ImageFolder) -> None:
    """Raise UserError if a held-out image is a training image too."""
    known = {os.path.realpath(file) for file in train.files}
    if shared := [file for file in held_out.files if os.path.realpath(file) in known]:
        raise UserError(f"{held_out.folder}: {len(shared)} of its images are training images too ({names(shared)})")


def class_labels(subfolders: Sequence[str], known: Sequence[str], classes: int, folder: Path) -> list[int]:
    """The class of each image by its subfolder: the subfolder's number where all are numbers, else its place in order.

    Args:
        subfolders: of each image.
        known: of all training images.
        classes: how many the model knows.
        folder: for messages.

    Raises:
        UserError: names that are not as many as the classes, or a number that is none of them.
    """
    order = sorted(set(known))
    if all(name.isdecimal() for name in {*order, *subfolders}):
        labels = [int(name) for name in subfolders]
        if wrong := [label for label in labels if label >= classes]:
            raise UserError(f"{folder}: class {wrong[0]}; the model knows classes 0 … {classes - 1}")
        return labels
    if len(order) != classes:
        raise UserError(
            f"{folder}: {len(order)} subfolders, where the model knows {classes} classes; needed: one of each, or "
            f"subfolders named by their numbers, 0 … {classes - 1}"
        )
    if strange := sorted(set(subfolders) - set(order)):
        raise UserError(f"{folder}: subfolder '{strange[0]}' is none of the training images'")
    return [order.index(name) for name in subfolders]
