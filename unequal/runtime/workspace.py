"""Workspace of a computation: files, a device, a log. A stage is one; so is a test, or a notebook."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import torch

if TYPE_CHECKING:
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
