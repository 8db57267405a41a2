"""Workspace of a computation: files, a device, a log, and a folder for finished chunks."""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, cast

import numpy as np
import torch

from unequal import processes
from unequal.saved import Saved, saved_or_none, write_saved

if TYPE_CHECKING:
    from tqdm import tqdm

    from unequal.settings.training import Runtime


class Workspace(Protocol):
    """Inputs and outputs, a folder for resumable state, a device, a log."""

    @property
    def device(self) -> torch.device:
        """Device of tensors. Raises UserError where CUDA is chosen and there is none."""

    @property
    def runtime(self) -> "Runtime":
        """Settings that shape no result."""

    @property
    def leads(self) -> bool:
        """Say whether this process, of those that share the computation, writes."""

    @property
    def work(self) -> Path:
        """Folder of the resumable state, which exists; an earlier attempt at the same has left it as it was."""

    def input(self, path: str | Path) -> Path:
        """Name a file or folder to be read. Raises UserError where it is missing."""

    def output(self, path: str | Path) -> Path:
        """Give the place to write a file or folder that appears at `path` when the computation succeeds."""

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Add a point to curves."""

    def picture(self, name: str, image: np.ndarray, step: int) -> None:
        """Add an image, uint8 [C, H, W], to those of a name over the steps."""

    def table(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Log rows as a table, with the columns of the first row."""

    def metrics(
        self, path: str | Path, content: Mapping[str, Any], headline: Mapping[str, float] | None = None
    ) -> None:
        """Write figures as a JSON output, and log them; the headline with the whole pipeline."""

    def parent_artifacts(self, paths: Sequence[str | Path]) -> None:
        """Log outputs with the whole pipeline too, once they are in place."""


@dataclass(frozen=True)
class Nested:
    """A workspace within another: a folder and curves of its own, all else is the outer one's."""

    outer: Workspace
    name: str

    def __getattr__(self, name: str) -> Any:
        return getattr(self.outer, name)

    @property
    def work(self) -> Path:
        folder = self.outer.work / self.name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self.outer.log({f"{self.name}/{name}": value for name, value in metrics.items()}, step)

    def picture(self, name: str, image: np.ndarray, step: int) -> None:
        self.outer.picture(f"{self.name}/{name}", image, step)


def nested(outer: Workspace, name: str) -> Workspace:
    """Return a workspace within another, with a folder and curves of its own."""
    return cast(Workspace, Nested(outer, name))


#: Compute capability of the first GPUs that have TF32 (Ampere).
TF32_SINCE = (8, 0)


def computed_on(device: torch.device) -> dict[str, str]:
    """Describe the conditions of figures: the device, a GPU by its name, and its arithmetic for float32."""
    if device.type == "cpu":
        return {"device": "cpu", "fp32": "ieee"}
    # TF32 (10 bits of mantissa) where PyTorch's switches allow it and the GPU has it.
    has_tf32 = torch.cuda.get_device_capability(device) >= TF32_SINCE
    allowed = {"convolutions": torch.backends.cudnn.allow_tf32, "products": torch.backends.cuda.matmul.allow_tf32}
    fp32 = ", ".join(f"{what} {'tf32' if has_tf32 and may else 'ieee'}" for what, may in allowed.items())
    return {"device": torch.cuda.get_device_name(device), "fp32": fp32}


def has_bf16(device: torch.device) -> bool:
    """Say whether a device is a GPU that computes in bf16 without emulation."""
    return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)


def chosen_precision(asked: str, device: torch.device) -> Literal["fp32", "bf16"]:
    """The precision on a device where the settings ask for one, or for `auto`."""
    return "bf16" if asked == "bf16" or (asked == "auto" and has_bf16(device)) else "fp32"


#: Calls of a network from which on `auto` compiles it. On an H200's host compiling DDPM's network for CIFAR-10 took
#: at most 44 s, and a step of the loop was 18 ms faster then, without CUDA graphs.
COMPILED_FROM = 2000


def is_compiled(asked: bool | str, device: torch.device, calls: int) -> bool:
    """Say whether `runtime.compile` has a network compiled on a device.

    `auto`: for so many calls that it saves time, on a GPU that has bf16. Triton builds its programs by a C compiler.
    """
    if asked == "auto":
        compilers = (os.environ.get("CC", ""), "cc", "gcc", "clang")
        has_tools = find_spec("triton") is not None and any(map(shutil.which, compilers))
        return calls >= COMPILED_FROM and has_bf16(device) and has_tools
    return bool(asked)


def memory_format(runtime: "Runtime") -> torch.memory_format:
    """Memory format of images and filters; set before optimizer and average copy the parameters' strides."""
    return torch.channels_last if runtime.channels_last else torch.contiguous_format


#: How many chunks a computation is cut into: one that is stopped loses a fiftieth at most.
CHUNKS = 50

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


def ranges(total: int, multiple: int) -> Iterator[range]:
    """Cut 0 … total−1 into at most CHUNKS ranges of whole multiples, the last one shorter where needed."""
    size = -(-total // (CHUNKS * multiple)) * multiple
    for start in range(0, total, size):
        yield range(start, min(start + size, total))
