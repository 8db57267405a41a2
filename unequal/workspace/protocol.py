"""What a computation asks of whoever runs it, and a workspace within another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch

    from unequal.settings.runtime import Runtime


class Workspace(Protocol):
    """Inputs and outputs, a folder for resumable state, a device, a log."""

    @property
    def device(self) -> "torch.device":
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
    def device(self) -> "torch.device":
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
