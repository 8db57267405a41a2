"""Long computations in chunks: each is stored when it is made, so that a stopped one loses a fiftieth at most."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from unequal.runtime import processes
from unequal.runtime.tensor_files import Saved, saved_or_none, write_saved

if TYPE_CHECKING:
    from tqdm import tqdm

#: Names of a chunk's array and of its own name, in its file.
ARRAY, NAME = "array", "name"


class Maker(NamedTuple):
    """Function that makes a chunk, and the shape of what it returns."""

    shape: tuple[int, ...]
    make: Callable[[], np.ndarray]


#: Functions that make the chunks, by name and in order.
Makers = Mapping[str, Maker]


def counted(makers: Makers, bar: "tqdm[Any]") -> Makers:
    """Makers each of which advances a bar by one."""

    def make(one: Maker) -> np.ndarray:
        made = one.make()
        bar.update()
        return made

    return {name: Maker(one.shape, partial(make, one)) for name, one in makers.items()}


@dataclass(frozen=True)
class Chunks:
    """Arrays by name in a folder of resumable state; without a folder nothing is stored.

    The folder must belong to one computation alone, with all that shapes it: a chunk is known by its name.
    """

    folder: Path | None = None

    def get(self, name: str, maker: Maker) -> np.ndarray:
        """Return the chunk of that name; make it if no earlier attempt has left it whole and unaltered."""
        if self.folder is None:
            return maker.make()
        saved = saved_or_none(path := self.file(name))
        if saved is not None and saved.facts == {NAME: name} and saved.tensors[ARRAY].shape == maker.shape:
            return saved.tensors[ARRAY].numpy()
        chunk = maker.make()
        write_saved(path, Saved({ARRAY: torch.from_numpy(np.ascontiguousarray(chunk))}, {NAME: name}))
        return chunk

    def all(self, makers: Makers) -> list[np.ndarray]:
        """Return all chunks in order; each is made by one of the processes, and read by all."""
        self.make(makers)
        return list(self.each(makers))

    def make(self, makers: Makers) -> None:
        """Make this process's part of the chunks, to be read later; without a folder, reading makes them."""
        if self.folder is not None:
            for name in self.own(makers):
                self.get(name, makers[name])

    def each(self, makers: Makers) -> Iterator[np.ndarray]:
        """Yield the chunks in order, one at a time in memory; those of other processes are waited for."""
        own = self.own(makers)
        for name, maker in makers.items():
            if self.folder is not None and name not in own:
                processes.wait_until(self.file(name).exists)
            yield self.get(name, maker)

    def own(self, makers: Makers) -> list[str]:
        """Name the chunks that this process makes."""
        return list(makers)[processes.rank() :: processes.count()]

    def file(self, name: str) -> Path:
        """Name the file of a chunk."""
        assert self.folder is not None
        return self.folder / f"{name}.chunk"

    def below(self, name: str) -> "Chunks":
        """Return the chunks of a computation within this one."""
        return self if self.folder is None else Chunks(self.folder / name)


#: For computations that are short, or outside a stage.
UNSTORED = Chunks()
