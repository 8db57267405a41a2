"""The images that a model is profiled on, as its network sees them, kept in parts on the disk."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from unequal.data.pixels import tensor_of
from unequal.data.sources import Images, folder
from unequal.errors import UserError
from unequal.profiler.model import Model
from unequal.randomness import Stream, numpy_generator
from unequal.settings.data import Data
from unequal.workspace.chunks import Chunks
from unequal.workspace.progress import image_bar

#: Images that are encoded and written at once.
PART = 64


@dataclass(frozen=True)
class Pictures:
    """Some images of a folder.

    Attributes:
        path: the folder.
        images: all of them, by index.
        chosen: indices of those that are used, rising, [n].
        described: a label of each that is used; empty where the model is told nothing.
    """

    path: Path
    images: Images
    chosen: np.ndarray
    described: Sequence[Any] = field(default_factory=tuple)

    def __len__(self) -> int:
        return len(self.chosen)


def pictures(path: Path, model: Model, limit: int, seed: int) -> Pictures:
    """At most so many images of a folder, drawn by a seed, cropped and scaled to what the model was trained on.

    Raises:
        UserError: no folder of images, an image that cannot be read or is grey where the model sees colours, or no
            labels for a model that is told them.
    """
    channels, size = model.pixels
    colours: Literal[1, 3] = 1 if channels == 1 else 3
    data = Data(source="folder", path=str(path), image_size=size, channels=colours, fit="crop", holdout=0.5)
    source = folder(path, data)
    count = len(source.images)
    if count < 2:
        raise UserError(f"{path}: one image; two or more are needed")
    generator = numpy_generator(seed, Stream.PROFILE_IMAGES, count)
    chosen = np.sort(generator.permutation(count)[:limit])
    if model.told != "labels":
        return Pictures(path, source.images, chosen)
    if source.labels is None or source.classes is None:
        raise UserError(f"{path}: no labels, which {model.family} is told; put each class into a folder of its own")
    if source.classes > (model.classes or 0):
        raise UserError(f"{path}: {source.classes} classes; the model knows {model.classes}")
    return Pictures(path, source.images, chosen, source.labels[chosen].tolist())


@dataclass(frozen=True)
class Kept:
    """An array [n, …] in parts of PART rows that lie on the disk, mapped."""

    parts: tuple[np.ndarray, ...]

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a row."""
        return self.parts[0].shape[1:]

    def rows(self, index: np.ndarray) -> Tensor:
        """Rows [B, …] with these numbers."""
        return torch.stack([tensor_of(self.parts[one // PART][one % PART]) for one in index.tolist()])


def keep(count: int, make: Callable[[range], Tensor], chunks: Chunks, progress: str | None) -> Kept:
    """Make an array part by part, those that an earlier attempt has left excepted.

    Args:
        count: n.
        make: numbers of rows → rows.
        chunks: where they are kept.
        progress: what a bar is called; None: no bar.
    """
    shares = [range(start, min(start + PART, count)) for start in range(0, count, PART)]
    with image_bar(count, progress is not None) as bar:
        bar.set_description(progress)

        def made(share: range) -> np.ndarray:
            rows = make(share).cpu()  # NumPy knows no bfloat16
            return (rows.float() if rows.is_floating_point() else rows).numpy()

        for share in shares:
            chunks.get(str(share.start), partial(made, share))
            bar.update(len(share))
    return Kept(tuple(np.load(chunks.file(str(share.start)), mmap_mode="r") for share in shares))


def encoded(found: Pictures, model: Model, chunks: Chunks, device: torch.device, progress: bool) -> Kept:
    """What the network sees of images."""

    def make(share: range) -> Tensor:
        stacked = np.stack([found.images[int(found.chosen[one])] for one in share])
        return model.encode(torch.from_numpy(stacked).to(device))

    return keep(len(found), make, chunks, "images" if progress else None)


def conditions(found: Pictures, model: Model, chunks: Chunks, progress: bool) -> Mapping[str, Kept]:
    """What the network is told of images, by name; nothing where it is told nothing."""
    if not found.described:
        return {}
    names = tuple(model.conditions(found.described[:1]))

    def make(share: range, name: str) -> Tensor:
        return model.conditions(found.described[share.start : share.stop])[name]

    bar = "captions" if progress else None
    return {name: keep(len(found), partial(make, name=name), chunks.below(name), bar) for name in names}
