"""What a computation gets from whoever runs it: files, a device, a log, and a folder for finished chunks."""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from unequal import processes
from unequal.files import write_bytes

if TYPE_CHECKING:
    from unequal.settings.runtime import Runtime


class Workspace(Protocol):
    """Inputs and outputs, a folder for resumable state, a device, a log."""

    @property
    def device(self) -> torch.device:
        """Where tensors live. Raises UserError where CUDA is asked for and there is none."""

    @property
    def runtime(self) -> "Runtime":
        """The settings that shape no result."""

    @property
    def leads(self) -> bool:
        """Whether this process, of those that share the computation, is the one that writes."""

    @property
    def work(self) -> Path:
        """Folder of the resumable state, which is there; an earlier attempt at the same has left it as it was."""

    def input(self, path: str | Path) -> Path:
        """A file or folder to be read. Raises UserError where it is missing."""

    def output(self, path: str | Path) -> Path:
        """Where to write a file or folder that shall appear at `path` when the computation has ended well."""

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Add a point to curves."""

    def table(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Log rows as a table, with the columns of the first one."""

    def metrics(
        self, path: str | Path, content: Mapping[str, Any], headline: Mapping[str, float] | None = None
    ) -> None:
        """Write figures as a JSON output, and log them; the headline's with the whole pipeline."""

    def parent_metrics(self, metrics: Mapping[str, float]) -> None:
        """Log figures with the whole pipeline, where its configurations are compared."""

    def parent_artifacts(self, paths: Sequence[str | Path]) -> None:
        """Log outputs with the whole pipeline as well, once they are in place."""


@dataclass(frozen=True)
class Nested:
    """A workspace within another: a folder and curves of its own, all else is the other's."""

    whole: Workspace
    name: str

    @property
    def device(self) -> torch.device:
        return self.whole.device

    @property
    def runtime(self) -> "Runtime":
        return self.whole.runtime

    @property
    def leads(self) -> bool:
        return self.whole.leads

    @property
    def work(self) -> Path:
        folder = self.whole.work / self.name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def input(self, path: str | Path) -> Path:
        return self.whole.input(path)

    def output(self, path: str | Path) -> Path:
        return self.whole.output(path)

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self.whole.log({f"{self.name}/{name}": value for name, value in metrics.items()}, step)

    def table(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        self.whole.table(name, rows)

    def metrics(
        self, path: str | Path, content: Mapping[str, Any], headline: Mapping[str, float] | None = None
    ) -> None:
        self.whole.metrics(path, content, headline)

    def parent_metrics(self, metrics: Mapping[str, float]) -> None:
        self.whole.parent_metrics(metrics)

    def parent_artifacts(self, paths: Sequence[str | Path]) -> None:
        self.whole.parent_artifacts(paths)


#: Compute capability of the first GPUs that have TF32 (Ampere).
TF32_SINCE = (8, 0)


def computed_on(device: torch.device) -> dict[str, str]:
    """What stands beside figures: the device, a GPU by its name, and what it takes for float32."""
    if device.type == "cpu":
        return {"device": "cpu", "fp32": "ieee"}
    return {"device": torch.cuda.get_device_name(device), "fp32": float32_on_gpu(device)}


def float32_on_gpu(device: torch.device) -> str:
    """TF32 (10 bits of mantissa) where PyTorch's switches allow it and the GPU has it."""
    has_tf32 = torch.cuda.get_device_capability(device) >= TF32_SINCE
    allowed = {"convolutions": torch.backends.cudnn.allow_tf32, "products": torch.backends.cuda.matmul.allow_tf32}
    return ", ".join(f"{what} {'tf32' if has_tf32 and may else 'ieee'}" for what, may in allowed.items())


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
UNSTORED = Chunks()


def ranges(total: int, multiple: int) -> Iterator[range]:
    """Cut 0 … total−1 into at most CHUNKS ranges of whole multiples, the last one as long as it comes out."""
    size = -(-total // (CHUNKS * multiple)) * multiple
    for start in range(0, total, size):
        yield range(start, min(start + size, total))
