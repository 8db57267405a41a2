"""Finished chunks of a long computation, kept so that a computation that was stopped goes on from them.

Processes that work together make chunks in turn, and find those of the others in the folder.
"""

import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unequal.files import write_bytes
from unequal.pipeline import processes

#: Into how many chunks a computation is cut: one that is stopped loses a fiftieth at most.
CHUNKS = 50

#: What makes each chunk, by name and in order.
Makers = Mapping[str, Callable[[], np.ndarray]]


@dataclass(frozen=True)
class Chunks:
    """Arrays by name in a folder of resumable state; without a folder nothing is kept.

    The folder must belong to one computation alone, with all that shapes it: a chunk is taken for
    what its name says.
    """

    folder: Path | None = None

    def get(self, name: str, make: Callable[[], np.ndarray]) -> np.ndarray:
        """The chunk of that name, made if no earlier attempt has left it whole."""
        if self.folder is None:
            return make()
        path = self.file(name)
        try:
            return np.asarray(np.load(path, allow_pickle=False))
        except (OSError, ValueError, EOFError):  # missing, or not whole
            made = make()
        content = io.BytesIO()
        np.save(content, made, allow_pickle=False)
        write_bytes(path, content.getvalue())
        return made

    def all(self, makers: Makers) -> list[np.ndarray]:
        """Chunks by name, in order; each is made by one of the processes, and read by all."""
        self.make(makers)
        return list(self.each(makers))

    def make(self, makers: Makers) -> None:
        """Make this process's part of the chunks, to be read later; without a folder that is when they are made."""
        if self.folder is not None:
            for name in self.own(makers):
                self.get(name, makers[name])

    def each(self, makers: Makers) -> Iterator[np.ndarray]:
        """Chunks in order, one at a time in memory. Other processes make theirs, whenever they come to it."""
        own = self.own(makers)
        for name, make in makers.items():
            if self.folder is not None and name not in own:
                processes.wait_until(self.file(name).exists)
            yield self.get(name, make)

    def own(self, makers: Makers) -> list[str]:
        """Names of the chunks that this process makes."""
        return list(makers)[processes.rank() :: processes.count()]

    def file(self, name: str) -> Path:
        """Where a chunk is kept."""
        assert self.folder is not None
        return self.folder / f"{name}.npy"

    def below(self, name: str) -> "Chunks":
        """Those of a computation within this one."""
        return self if self.folder is None else Chunks(self.folder / name)


#: For computations that are short, or not a stage's.
UNKEPT = Chunks()


def ranges(total: int, multiple: int) -> Iterator[range]:
    """Cut 0 … total−1 into at most CHUNKS ranges of whole multiples, the last one as long as it comes out."""
    size = -(-total // (CHUNKS * multiple)) * multiple
    for start in range(0, total, size):
        yield range(start, min(start + size, total))
