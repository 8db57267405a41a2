"""What is kept of stated points of a training: averaged weights, to be scored by a later stage, and their like."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from unequal.errors import UserError
from unequal.training.checkpoint import Checkpoint, below, read_checkpoint, write_checkpoint
from unequal.training.state import TrainingState


@dataclass(frozen=True)
class Snapshot:
    """What is kept of the point after so many optimizer steps and images, in a file of the work directory."""

    steps: int
    images_seen: int
    file: Path

    def weights(self) -> dict[str, Tensor]:
        """Parameter name → averaged weights. Raises UserError where the file is gone or damaged."""
        return below("average.", self.checkpoint().tensors)

    def state(self) -> TrainingState:
        """What the training was going on with, where it was kept. Raises UserError as `weights` does."""
        return TrainingState.of(self.checkpoint())

    def checkpoint(self) -> Checkpoint:
        """All of the file. Raises UserError where it is gone or damaged."""
        saved = read_checkpoint(self.file)
        if saved is None or saved.facts["step"] != self.steps:
            raise UserError(f"{self.file}: gone or altered since it was saved; delete it to start again")
        return saved


class Snapshots:
    """Files `<name>-<step>.safetensors` in a work directory; a resumed run writes the same ones again or finds them.

    Args:
        work: the folder.
        steps: after which optimizer steps one is kept.
        name: with which their names begin.
    """

    def __init__(self, work: Path, steps: Sequence[int], name: str = "snapshot") -> None:
        self.work = work
        self.steps = tuple(dict.fromkeys(steps))
        self.name = name

    def file(self, step: int) -> Path:
        """Where the snapshot of a step lies."""
        return self.work / f"{self.name}-{step}.safetensors"

    def keep(self, step: int, tensors: Mapping[str, Tensor], **facts: str) -> None:
        """Write a snapshot, whole or not at all."""
        write_checkpoint(self.file(step), Checkpoint(dict(tensors), {"step": step} | facts))

    def kept(self, images: Callable[[int], int]) -> tuple[Snapshot, ...]:
        """All snapshots that have been written, in order; `images` tells what was seen after so many steps."""
        present = (step for step in self.steps if self.file(step).exists())
        return tuple(Snapshot(step, images(step), self.file(step)) for step in present)
