"""Checkpoints: the saved state of a training, checked when it is read, and the one before it.

A write that a power cut ends early leaves the previous file; one that a disk damages later is detected by its digest,
and the previous state is used. The same format holds the training state of a model (its last weights and its
optimizer's moments), from which a further training resumes, and the snapshots of stated points of a training.
The log, means of named terms over intervals of steps with a line of JSON each, is part of the state.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn

from unequal.errors import UserError
from unequal.models.folder import STATE
from unequal.runtime.files import sync
from unequal.runtime.tensor_files import Saved, read_saved, saved_or_none, write_saved


def add_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors under names that start with a prefix."""
    return {prefix + name: value for name, value in tensors.items()}


def strip_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors whose name starts with a prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def write_checkpoint(path: Path, checkpoint: Saved) -> None:
    """Make this the state at `path`; the one that stood there is stored next to it, unless it is damaged."""
    new = path.with_name(f"new-{path.name}")
    write_saved(new, checkpoint)
    if saved_or_none(path) is not None:
        os.replace(path, previous_path(path))
    os.replace(new, path)
    sync(path.parent)


class CheckpointWriter:
    """Writes the states and snapshots of a training in a thread, while the training goes on.

    They are written in the order in which they come, and none after one that failed: a state on disk has all snapshots
    before it. Only those of one step wait in memory. A write that fails is raised by a later call. As a context it ends
    with the last write.

    Args:
        path: of the last state, next to which the one before it is stored.
        seconds: after which a state is late; None: never.
    """

    def __init__(self, path: Path, seconds: float | None = None) -> None:
        self.path, self.seconds = path, float("inf") if seconds is None else seconds
        self.pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self.step, self.pending = 0, list[Future[None]]()
        self.begun = time.monotonic()

    def start(self, path: Path, state: Saved) -> None:
        """Copy a state or a snapshot, whose facts name its step, into host memory, and begin to write it.

        Writes of earlier steps are waited for.
        """
        if state.facts["step"] != self.step:
            self.finish()
        copied = Saved(in_host_memory(state.tensors), deepcopy(state.facts))
        before = self.pending[-1] if self.pending else None
        self.step = state.facts["step"]
        self.pending.append(self.pool.submit(self.write, path, copied, before))
        if path == self.path:
            self.begun = time.monotonic()

    def write(self, path: Path, state: Saved, before: Future[None] | None) -> None:
        """Write a file, unless the write before it has failed, whose error this one then has."""
        if before is not None:
            before.result()
        if path == self.path:
            write_checkpoint(path, state)
        else:
            write_saved(path, state)

    def is_late(self) -> bool:
        """Say whether the last state's write began so many seconds ago. Raises what an ended write failed by."""
        if all(one.done() for one in self.pending):
            self.finish()
        return time.monotonic() >= self.begun + self.seconds

    def finish(self) -> None:
        pending, self.pending = self.pending, []
        for one in pending:
            one.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self.finish()
        for one in self.pending:
            one.exception()  # the error that ends the training is the one to report


def in_host_memory(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copy tensors, so that a training may change its own; those of a GPU by one wait."""
    copies = {
        name: torch.empty_like(tensor, device="cpu", pin_memory=tensor.is_cuda).copy_(
            tensor.detach(), non_blocking=True
        )
        for name, tensor in tensors.items()
    }
    if any(one.is_cuda for one in tensors.values()):
        torch.cuda.synchronize()
    return copies


def read_checkpoint(path: Path, fits: Callable[[Saved], bool] = lambda _: True) -> Saved | None:
    """The state at `path`, or the one before it where that is damaged or does not fit; None if there is none that does.

    Raises:
        UserError: both are damaged.
    """
    standing = [one for one in (path, previous_path(path)) if one.exists()]
    sound = [saved for one in standing if (saved := saved_or_none(one)) is not None]
    if standing and not sound:
        read_saved(standing[-1])  # says what is wrong
    return next(filter(fits, sound), None)


def previous_path(path: Path) -> Path:
    """Path of the state before the last one."""
    return path.with_name(f"before-{path.name}")


@dataclass(frozen=True)
class TrainingState:
    """A point of a training.

    Attributes:
        weights: by name, as they were after the last step.
        moments: of the optimizer: `<parameter>.<moment>`, their counts of steps among them.
        optimizer: its name in the settings.
    """

    weights: dict[str, Tensor]
    moments: dict[str, Tensor]
    optimizer: str

    @classmethod
    def of(cls, checkpoint: Saved) -> Self:
        """State in a checkpoint, which holds its tensors and names the optimizer."""
        saved = checkpoint.tensors
        return cls(strip_prefix("net.", saved), strip_prefix("optimizer.", saved), checkpoint.facts["optimizer"])

    @classmethod
    def load(cls, folder: Path) -> Self:
        """The state in a model folder. Raises UserError where it is damaged."""
        return cls.of(read_saved(folder / STATE, "make the model again"))

    def save(self, folder: Path) -> None:
        tensors = add_prefix("net.", self.weights) | add_prefix("optimizer.", self.moments)
        write_checkpoint(folder / STATE, Saved(tensors, {"optimizer": self.optimizer}))

    def fits(self, net: nn.Module) -> bool:
        """Say whether its weights have the names and shapes of a network's."""
        shapes = [{name: tensor.shape for name, tensor in one.items()} for one in (self.weights, net.state_dict())]
        return shapes[0] == shapes[1]


@dataclass(frozen=True)
class Snapshot:
    """A stored point of a training, after so many optimizer steps and images: a file of the work directory."""

    steps: int
    images_seen: int
    file: Path

    def weights(self) -> dict[str, Tensor]:
        """Parameter name → averaged weights. Raises UserError where the file is gone or damaged."""
        return strip_prefix("average.", self.checkpoint().tensors)

    def state(self) -> TrainingState:
        """The training's state, where it was stored. Raises UserError as `weights` does."""
        return TrainingState.of(self.checkpoint())

    def checkpoint(self) -> Saved:
        """All of the file. Raises UserError where it is gone or damaged."""
        remedy = f"delete {self.file.parent} to start again"
        saved = read_saved(self.file, remedy)
        if saved.facts["step"] != self.steps:
            raise UserError(f"{self.file}: of step {saved.facts['step']} instead of {self.steps}; {remedy}")
        return saved


@dataclass(frozen=True)
class Trained:
    """Result of a training. The network itself is trained in place.

    Attributes:
        steps, images_seen: optimizer steps, and images.
        log: file of the log.
        snapshots: of the averaged weights, with the state where the recipe stores it.
        averages: snapshots from which averages of other widths are made.
        statistics: of the objective.
        learned: parameters of the objective; most have none.
        effective_weighting: tables of `unequal.training.batches.effective_weighting`.
        end: the state after the last step; None for a training without a step.
        pictures: images seen → the grid of samples after them, uint8 [C, H, W].
    """

    steps: int
    images_seen: int
    log: Path
    snapshots: tuple[Snapshot, ...] = ()
    averages: tuple[Snapshot, ...] = ()
    statistics: dict[str, np.ndarray] = field(default_factory=dict)
    learned: dict[str, Tensor] = field(default_factory=dict)
    effective_weighting: dict[str, np.ndarray] = field(default_factory=dict)
    end: Snapshot | None = None
    pictures: dict[int, np.ndarray] = field(default_factory=dict)


class Snapshots:
    """Files `<name>-<step>.safetensors` in a work directory; a resumed run writes the same ones again or finds them."""

    def __init__(self, work: Path, steps: Sequence[int], name: str = "snapshot") -> None:
        self.work = work
        self.steps = tuple(dict.fromkeys(steps))
        self.name = name

    def file(self, step: int) -> Path:
        return self.work / f"{self.name}-{step}.safetensors"

    def reached(self, step: int, images: Callable[[int], int]) -> tuple[Snapshot, ...]:
        """All snapshots up to a step, in order; `images` maps steps to images seen.

        Raises:
            UserError: one is gone.
        """
        files = {one: self.file(one) for one in self.steps if one <= step}
        if gone := [file for file in files.values() if not file.exists()]:
            raise UserError(f"{gone[0]}: gone since it was saved; put it back, or delete {self.work} to start again")
        return tuple(Snapshot(one, images(one), file) for one, file in files.items())


LOG = "training.jsonl"


class LogInterval:
    """Sums of named terms since the last line of the log, stored on the device.

    `steps` and `sums` are those of an earlier process, whose time counts for no speed.
    """

    def __init__(self, steps: int = 0, sums: dict[str, Tensor] | None = None) -> None:
        self.steps = self.earlier_steps = steps
        self.sums = sums or {}
        self.start, self.busy = time.perf_counter(), processor_seconds()

    def add(self, terms: dict[str, Tensor]) -> None:
        self.steps += 1
        self.sums = {name: value + self.sums[name].to(value) if self.sums else value for name, value in terms.items()}

    def means(self) -> dict[str, Tensor]:
        """Mean of each term, still on the device."""
        return {name: value / self.steps for name, value in self.sums.items()}

    def speed(self) -> float:
        """Steps a second of this process."""
        return (self.steps - self.earlier_steps) / (time.perf_counter() - self.start)

    def compute_seconds(self, on_gpu: bool) -> float:
        """Seconds of a GPU, or of this process's processors, for all steps; other programs' do not count."""
        spent = time.perf_counter() - self.start if on_gpu else processor_seconds() - self.busy
        return spent * self.steps / (self.steps - self.earlier_steps)


def processor_seconds() -> float:
    """Processor seconds of this process so far, with those of other threads only where PyTorch computes in several."""
    return time.thread_time() if torch.get_num_threads() == 1 else time.process_time()
