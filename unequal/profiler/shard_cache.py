"""Encoded images and captions on disk, computed once; batches of the network are read from there."""

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from unequal.errors import UserError
from unequal.runtime.progress import tracked
from unequal.runtime.tensor_files import Saved, saved_or_none, write_saved

#: Images of a file, and the name of their numbers in it.
SHARD, IMAGES = 32, "images"
#: Tensors by name, each with a row an image.
Rows = dict[str, Tensor]
#: Encodes images by number.
Encode = Callable[[Sequence[int]], Rows]


class ShardCache:
    """Rows of some images in a folder, SHARD images a file; an earlier attempt's files are used again."""

    def __init__(self, folder: Path, numbers: np.ndarray) -> None:
        self.folder = folder
        self.numbers = numbers
        self._open: dict[int, safe_open] = {}

    @cached_property
    def missing(self) -> list[int]:
        """Numbers of the files that are missing, or were altered since they were written."""
        return [one for one in range(-(-len(self.numbers) // SHARD)) if not self.is_whole(one)]

    def is_whole(self, shard: int) -> bool:
        """Say whether a file holds a row for each of its images, as they were written."""
        saved, images = saved_or_none(self.file(shard)), self.images_of(shard)
        if saved is None or saved.facts != {IMAGES: images}:
            return False
        return all(len(tensor) == len(images) for tensor in saved.tensors.values())

    def images_of(self, shard: int) -> list[int]:
        numbers: list[int] = self.numbers[shard * SHARD : (shard + 1) * SHARD].tolist()
        return numbers

    def make(self, encode: Encode, title: str) -> None:
        """Encode and write the missing files. Raises UserError if a row is NaN or infinite."""
        for one in tracked(self.missing, f"parts of {SHARD}", title):
            rows = encode(self.images_of(one))
            for name, tensor in rows.items():
                if not bool(tensor.isfinite().all()):
                    raise UserError(
                        f"{title}: '{name}' holds NaN or infinite values; the pipeline's encoder is unsound"
                    )
            write_saved(self.file(one), Saved(rows, {IMAGES: self.images_of(one)}))

    def rows(self, numbers: np.ndarray) -> Rows:
        """Rows of a batch of images by their numbers, on the CPU. Raises UserError where a file is damaged."""
        parts = list[Rows]()
        for place in np.searchsorted(self.numbers, numbers).tolist():
            shard, at = divmod(place, SHARD)
            opened = self.opened(shard)
            parts.append({name: opened.get_slice(name)[at : at + 1] for name in opened.keys()})  # noqa: SIM118
        return {name: torch.cat([part[name] for part in parts]) for name in parts[0]} if parts else {}

    def opened(self, shard: int) -> safe_open:
        if shard not in self._open:
            try:
                self._open[shard] = safe_open(self.file(shard), framework="pt")
            except (SafetensorError, OSError):
                raise UserError(
                    f"{self.file(shard)}: damaged; delete it, and the same command makes it again"
                ) from None
        return self._open[shard]

    def file(self, shard: int) -> Path:
        return self.folder / f"{shard}.safetensors"
