"""Two ways to start a stage: by its command, and out of a process that has the libraries in memory already."""

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psutil

from benchmarks.projects import environment_of

#: A tracking server that is not there, which costs nothing.
NOBODY = "http://127.0.0.1:9"


class Running(Protocol):
    """A process that has been started."""

    @property
    def pid(self) -> int: ...
    def ended(self, seconds: float) -> int | None:
        """Its status once it has ended, negative for a signal; None if it runs on after so many seconds."""


class Starter(Protocol):
    """A way to start a command, `python -m <module> …`."""

    def start(self, words: Sequence[str]) -> Running: ...


@dataclass(frozen=True)
class Command:
    """A process of our own."""

    process: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        return self.process.pid

    def ended(self, seconds: float) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            return self.process.wait(seconds)
        return None


@dataclass(frozen=True)
class Commands:
    """Starts commands in a project as its user does."""

    project: Path

    def start(self, words: Sequence[str]) -> Command:
        """Start one in a session of its own; what it says goes to the project's log."""
        with log_of(self.project).open("wb") as log:
            process = subprocess.Popen(
                words,
                cwd=self.project,
                env=environment_of(self.project),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return Command(process)


@dataclass
class WarmProcess:
    """A child of the warm process, which answers with its status when it has ended."""

    pid: int
    answers: int
    status: int | None = None

    def ended(self, seconds: float) -> int | None:
        if self.status is None and select.select([self.answers], [], [], seconds)[0]:
            self.status = int(line_of(self.answers))
        return self.status


@dataclass(frozen=True)
class Warm:
    """Starts commands out of the warm process of a project; see `benchmarks.warm`."""

    project: Path
    process: subprocess.Popen[bytes]

    def start(self, words: Sequence[str]) -> WarmProcess:
        """Start one, when the one before has ended."""
        _, _, *argv = words
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps({"argv": argv, "log": str(log_of(self.project))}).encode() + b"\n")
        self.process.stdin.flush()
        answers = self.process.stdout.fileno()
        return WarmProcess(int(line_of(answers)), answers)


@contextmanager
def warm(project: Path) -> Iterator[Warm]:
    """The warm process of a project, as long as it is needed; what its stages log is heard by nobody."""
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.warm"],
        cwd=project,
        env=environment_of(project) | {"MLFLOW_TRACKING_URI": NOBODY},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        try:
            yield Warm(project, process)
        finally:
            for one in (*psutil.Process(process.pid).children(), process):
                one.kill()


def line_of(descriptor: int) -> str:
    """A line of a pipe, byte by byte: what comes behind it stays there, for `select` to see."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(descriptor, 1)
        if not byte:
            raise EOFError("the warm process has ended")
        line += byte
    return line.decode()


def log_of(project: Path) -> Path:
    """Where the output of the last command lies."""
    return project / "last.log"
