"""What encoders make of images and texts, computed once and kept on disk, where the network's batches are read from."""

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor
from tqdm import tqdm

from unequal.errors import UserError
from unequal.files import write_bytes

#: Images of a file.
SHARD = 32
#: Tensors by name, each with a row an image.
Rows = dict[str, Tensor]
#: Makes such rows of the images with these numbers.
Encode = Callable[[Sequence[int]], Rows]


class Kept:
    """Rows of some images in a folder, SHARD images a file; those that an earlier attempt has left are not made again.

    Args:
        folder: of this encoding alone, with all that shapes it.
        numbers: of the images, rising, [M].
    """

    def __init__(self, folder: Path, numbers: np.ndarray) -> None:
        self.folder = folder
        self.numbers = numbers
        self._open: dict[int, safe_open] = {}

    @cached_property
    def missing(self) -> list[int]:
        """Files that are yet to be made, by number."""
        return [one for one in range(-(-len(self.numbers) // SHARD)) if not self.file(one).exists()]

    def make(self, encode: Encode, title: str) -> None:
        """Make what is missing. Raises UserError where a row is NaN or infinite."""
        for one in tqdm(self.missing, desc=title, unit=f"×{SHARD}", disable=None):
            rows = encode(self.numbers[one * SHARD : (one + 1) * SHARD].tolist())
            for name, tensor in rows.items():
                if not bool(tensor.isfinite().all()):
                    raise UserError(
                        f"{title}: '{name}' holds NaN or infinite values; the pipeline's encoder is unsound"
                    )
            write_bytes(self.file(one), save({name: tensor.cpu().contiguous() for name, tensor in rows.items()}))

    def rows(self, numbers: np.ndarray) -> Rows:
        """Rows of a batch of images by their numbers, on the CPU. Raises UserError where a file is damaged."""
        places = np.searchsorted(self.numbers, numbers).tolist()
        parts = [self.row(place) for place in places]
        return {name: torch.cat([part[name] for part in parts]) for name in parts[0]} if parts else {}

    def row(self, place: int) -> Rows:
        """That of an image, [1, …] each."""
        shard, at = divmod(place, SHARD)
        opened = self.opened(shard)
        return {name: opened.get_slice(name)[at : at + 1] for name in opened.keys()}  # noqa: SIM118

    def opened(self, shard: int) -> safe_open:
        """A file, mapped and not read."""
        if shard not in self._open:
            try:
                self._open[shard] = safe_open(self.file(shard), framework="pt")
            except (SafetensorError, OSError):
                raise UserError(
                    f"{self.file(shard)}: damaged; delete it, and the same command makes it again"
                ) from None
        return self._open[shard]

    def file(self, shard: int) -> Path:
        """Where it is kept."""
        return self.folder / f"{shard}.safetensors"
