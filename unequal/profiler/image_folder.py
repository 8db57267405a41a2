"""Folders of images that a model is profiled on, with captions or classes."""

import codecs
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from unequal.data.folders import PictureFolder, first_names
from unequal.data.pictures import channels_first, converted, decode, readable, steps_of
from unequal.errors import UserError, say
from unequal.models.class_names import class_numbers, read_class_names
from unequal.profiler.document import SplitName
from unequal.profiler.family import Family
from unequal.runtime.files import content_hash

METADATA = "metadata.jsonl"
#: Keys of a line of it.
FILE, TEXT = "file_name", "text"
#: Byte-order marks; UTF-32's begins with that of UTF-16.
MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


class ImageFolder(PictureFolder):
    """Image files of a folder, at any depth, in the order of their paths."""

    def __len__(self) -> int:
        return len(self.files)

    def pixels(self, rows: Sequence[int], channels: int, size: int) -> Tensor:
        """Some images, uint8 [B, C, size, size]. Raises UserError where one cannot be read."""
        return torch.from_numpy(np.stack([picture(self.files[row], channels, size) for row in rows]))

    def captions(self) -> list[str]:
        """A caption of each image. Raises UserError where some are missing."""
        listed = metadata(self.folder)
        texts = {file: caption(file, listed) for file in self.files}
        if missing := [file for file, text in texts.items() if text is None]:
            raise UserError(
                f"{self.folder}: captions missing of {len(missing)} of {len(self)} images ({first_names(missing)}); "
                f"needed: name.txt next to name.png, or {METADATA} with {FILE} and {TEXT}"
            )
        return [text for text in texts.values() if text is not None]

    @property
    def subfolders(self) -> list[str] | None:
        """The subfolder of each image, where all images lie one level deep, else None."""
        parts = [file.relative_to(self.folder).parts for file in self.files]
        return [part[0] for part in parts] if all(len(part) == 2 for part in parts) else None


def picture(file: Path, channels: int, size: int) -> np.ndarray:
    """An image as uint8 [C, size, size]: its largest centred square, scaled where it is of another size."""
    with readable(file):
        decoded = decode(file)
        steps_of(decoded.mode, channels, file)
        whole = converted(decoded, channels)
        if whole.size != (size, size):
            whole = ImageOps.fit(whole, (size, size), Image.Resampling.LANCZOS)
        return channels_first(whole)


def metadata(folder: Path) -> dict[Path, str]:
    """Captions in the folder's list; empty: there is none. Raises UserError at a line of another form."""
    path = folder / METADATA
    if not path.is_file():
        return {}
    texts = {}
    # Texts of JSON may hold U+2028 and others that end lines elsewhere.
    for number, line in enumerate(text_of(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            if not isinstance(text := entry[TEXT], str):
                raise TypeError(text)  # null is no caption
            texts[folder / entry[FILE]] = text
        except (ValueError, KeyError, TypeError):
            raise UserError(f"{path}: line {number} is no JSON object with {FILE} and {TEXT}, both texts") from None
    return texts


def text_of(path: Path) -> str:
    """Read a text in UTF-8, or in what its byte-order mark says, without the mark. Raises UserError for another."""
    content = path.read_bytes()
    encoding = next((name for mark, name in MARKS.items() if content.startswith(mark)), "utf-8")
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: byte {error.start} is no {encoding} text; save it as UTF-8") from None
    if "\0" in text:
        raise UserError(f"{path}: holds a zero byte, so it is no UTF-8 text; save it as UTF-8")
    return text


def caption(file: Path, listed: dict[Path, str]) -> str | None:
    """The text next to an image, else that of the list; None: there is neither."""
    own = file.with_suffix(".txt")
    return text_of(own).strip() if own.is_file() else listed.get(file)


def refuse_shared(train: ImageFolder, held_out: ImageFolder) -> None:
    """Raise UserError if a held-out image is a training image too, by its content."""
    sizes = {file.stat().st_size for file in held_out.files}
    known = {content_hash(file) for file in train.files if file.stat().st_size in sizes}
    if shared := [file for file in held_out.files if content_hash(file) in known]:
        raise UserError(
            f"{held_out.folder}: {len(shared)} of its images are training images too ({first_names(shared)}); remove "
            "them from one of the two folders"
        )


def image_folders(train: Path, held_out: Path | None) -> dict[SplitName, ImageFolder]:
    """Images of each split. Raises UserError."""
    images: dict[SplitName, ImageFolder] = {"train": ImageFolder.of(train)}
    if held_out is not None:
        images["held_out"] = ImageFolder.of(held_out)
        refuse_shared(images["train"], images["held_out"])
    for folder in images.values():
        if notes := folder.notes():
            say(f"{folder.folder}: {notes}", err=True)
    return images


def labels_of(images: dict[SplitName, ImageFolder], family: Family) -> dict[SplitName, list[int]]:
    """The class of each image by its subfolder if the network takes classes; without subfolders the null class.

    Raises UserError if there is neither.
    """
    if family.classes is None:
        return {}
    subfolders = {split: own.subfolders for split, own in images.items()}
    if family.null_class is not None and not any(subfolders.values()):
        return {split: [family.null_class] * len(own) for split, own in images.items()}
    labels = {}
    for split, own in images.items():
        if (classes := subfolders[split]) is None:
            raise UserError(
                f"{own.folder}: the {family.title} takes one of {family.classes} classes; needed: images in a "
                f"subfolder for each class, one level deep, in all folders{strays_in(images)}"
            )
        names = sorted(set(classes))
        numbers = class_numbers(names, read_class_names(family.pipeline.path), family.classes, str(own.folder))
        number_of = dict(zip(names, numbers, strict=True))
        labels[split] = [number_of[name] for name in classes]
    return labels


def strays_in(images: dict[SplitName, ImageFolder]) -> str:
    """Name images next to subfolders, which keep these from being classes; empty where there are none."""
    for own in images.values():
        strays = [file for file in own.files if file.parent == own.folder]
        if 0 < len(strays) < len(own):
            return f"; next to subfolders of {own.folder} stands {first_names(strays)}"
    return ""
