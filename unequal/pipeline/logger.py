"""Loggers: where the runs of stages are logged. `runtime.tracking.logger` names one of LOGGERS, or `module:Class`.

A stage talks to `Tracker`, which calls a logger in a thread of its own: no logger delays or fails a stage.
"""

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unequal.data.grids import png_of
from unequal.errors import UserError
from unequal.runtime.files import settings_hash, write_bytes
from unequal.runtime.place import home
from unequal.settings.strict import PARAMS
from unequal.settings.training import Tracking

if TYPE_CHECKING:
    from unequal.settings.evaluation import Sampling

#: `runtime.tracking.logger` → class.
LOGGERS = {"mlflow": "unequal.pipeline.mlflow_logger:MlflowLogger", "files": f"{__name__}:FilesLogger"}
#: Stage of an execution that stands for a scored model: a run that people compare with others.
MODEL = "model"


@dataclass(frozen=True)
class Execution:
    """A stage's options and settings, and the whole of params.yaml: `document` has hashes in the place of paths."""

    stage: str
    options: Mapping[str, str | int]
    settings: Mapping[str, Any]
    document: Mapping[str, Any]
    written: Mapping[str, Any]

    @property
    def configuration(self) -> dict[str, Any]:
        """Settings that shape results: executions that share them have one parent."""
        return {section: content for section, content in self.document.items() if section != "runtime"}

    @property
    def name(self) -> str:
        """Stage and options in a line, without the files that it waits for; of a model its name alone."""
        options = [str(value) for value in self.options.values() if "/" not in str(value)]
        return " ".join(options if self.stage == MODEL else [self.stage, *options])


class Point(NamedTuple):
    """A value of a curve, with the time in milliseconds at which it was logged."""

    name: str
    value: float
    step: int
    timestamp: int


class Logger:
    """The log of an execution; `parent` stands for that of its configuration. A failed method may be called again."""

    def __init__(self, tracking: Tracking, execution: Execution) -> None:
        self.tracking, self.execution = tracking, execution

    @classmethod
    def address(cls, tracking: Tracking) -> str:
        """Where it logs, for messages."""
        return tracking.logger

    @staticmethod
    def is_retryable(error: Exception) -> bool:
        """Say whether the same call may succeed later."""
        return isinstance(error, ConnectionError | TimeoutError)

    def alone(self) -> AbstractContextManager[object]:
        """Keep other processes away during a call."""
        return nullcontext()

    def start(self) -> None:
        """Open the run, with its settings."""

    def params(self, values: Mapping[str, Any]) -> None:
        """Log what figures depend on, as far as it is known by now, under dotted keys."""

    def metrics(self, points: Sequence[Point], parent: bool = False) -> None:
        """Add points to curves."""

    def picture(self, name: str, image: np.ndarray, step: int) -> None:
        """Log an image, uint8 [C, H, W], as one of a series over steps."""

    def artifacts(self, files: Mapping[str, Path | str], parent: bool = False) -> None:
        """Log files: path in the log → file, or its text."""

    def register(self, name: str, model: Path, timesteps: Sequence[int], sampling: "Sampling") -> None:
        """Register a model by its folder, with the timesteps and settings by which it is sampled."""

    def finish(self, status: str) -> None:
        """End the run: FINISHED, FAILED or KILLED."""


class FilesLogger(Logger):
    """A folder an execution in `logs/runs/<configuration>`: JSON lines, and pictures."""

    def start(self) -> None:
        self.parent = home() / "logs/runs" / settings_hash(self.execution.configuration)[:12]
        self.folder = self.parent / f"{self.execution.name.replace(' ', '-')}-{time.strftime('%Y%m%d-%H%M%S')}"
        self.params(self.execution.settings)

    def params(self, values: Mapping[str, Any]) -> None:
        self._append("params", [values])

    def metrics(self, points: Sequence[Point], parent: bool = False) -> None:
        self._append("metrics", [one._asdict() for one in points], parent)

    def picture(self, name: str, image: np.ndarray, step: int) -> None:
        write_bytes(self.folder / f"{name}-{step:09d}.png", png_of(image))

    def artifacts(self, files: Mapping[str, Path | str], parent: bool = False) -> None:
        self._append("artifacts", [{name: str(file)} for name, file in files.items()], parent)

    def finish(self, status: str) -> None:
        self.params({"status": status})

    def _append(self, name: str, rows: Sequence[Mapping[str, Any]], parent: bool = False) -> None:
        folder = self.parent if parent else self.folder
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{name}.jsonl").open("a", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(row, default=str)}\n" for row in rows)


def logger_class(name: str) -> type[Logger]:
    """Find a logger. Raises UserError where there is none of this name."""
    try:
        found = resolve_name(LOGGERS.get(name, name))
    except (ImportError, AttributeError, ValueError):
        found = None
    if not (isinstance(found, type) and issubclass(found, Logger)):
        allowed = f"{', '.join(LOGGERS)}, or module:Class of a Logger"
        raise UserError(f"{PARAMS}: runtime.tracking.logger: '{name}'; allowed: {allowed}")
    return found
