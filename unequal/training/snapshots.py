"""Averaged weights kept at stated points of a training, to be scored by a later stage."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from unequal.training.checkpoint import Checkpoint, read_checkpoint, write_checkpoint


@dataclass(frozen=True)
class Snapshot:
    """The averaged weights after so many optimizer steps and images, in a file of the work directory."""

    steps: int
    images_seen: int
    file: Path

    def weights(self) -> dict[str, Tensor]:
        """Parameter name → averaged weights. Raises UserError where the file is gone or damaged."""
        saved = read_checkpoint(self.file)
        assert saved is not None  # `Snapshots.kept` has seen the file
        return saved.tensors


class Snapshots:
    """Files `snapshot-<step>.safetensors` in a work directory; a resumed run writes the same ones again or finds them.

    Args:
        work: the folder.
        steps: after which optimizer steps one is kept.
    """

    def __init__(self, work: Path, steps: Sequence[int]) -> None:
        self.work = work
        self.steps = tuple(steps)

    def file(self, step: int) -> Path:
        """Where the snapshot of a step lies."""
        return self.work / f"snapshot-{step}.safetensors"

    def keep(self, step: int, weights: Mapping[str, Tensor]) -> None:
        """Write a snapshot, whole or not at all."""
        write_checkpoint(self.file(step), Checkpoint(dict(weights), {"step": step}))

    def kept(self, images: Callable[[int], int]) -> tuple[Snapshot, ...]:
        """All snapshots that have been written, in order; `images` tells what was seen after so many steps."""
        present = (step for step in self.steps if self.file(step).exists())
        return tuple(Snapshot(step, images(step), self.file(step)) for step in present)
