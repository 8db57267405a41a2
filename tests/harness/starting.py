"""Two ways to start a stage: by its command, and out of a process that has the libraries in memory already."""

import os
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from harness.projects import environment_of
from harness.warm_python import ask

HERE, SOCKET = Path(__file__).parent, "socket"
#: No tracking server at all: nothing is waited for.
NOBODY = "nobody://"


@dataclass(frozen=True)
class Command:
    """A process of our own."""

    process: subprocess.Popen[bytes]

    def ended(self, seconds: float) -> int | None:
        """Its status once it has ended, negative for a signal; None if it runs on after so many seconds."""
        with suppress(subprocess.TimeoutExpired):
            return self.process.wait(seconds)
        return None


@dataclass(frozen=True)
class Commands:
    """Starts commands in a project as its user does, with so much more in the environment."""

    project: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    def start(self, words: Sequence[str]) -> Command:
        """Start one in a session of its own; what it says goes to the project's log."""
        with log_of(self.project).open("wb") as log:
            process = subprocess.Popen(
                words,
                cwd=self.project,
                env=environment_of(self.project) | dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return Command(process)


@dataclass
class WarmProcess:
    """A program of the warm process, which answers with its status when it has ended."""

    pid: int
    answers: socket.socket
    status: int | None = None

    def ended(self, seconds: float) -> int | None:
        if self.status is None and select.select([self.answers], [], [], seconds)[0]:
            self.status = int(line_of(self.answers))
        return self.status


@dataclass(frozen=True)
class Warm:
    """Starts commands of a project out of the warm process that has this folder."""

    project: Path
    place: Path

    def start(self, words: Sequence[str]) -> WarmProcess:
        """Start one; what it says goes to the project's log."""
        environment = environment_of(self.project) | {"MLFLOW_TRACKING_URI": NOBODY}
        with Path(os.devnull).open("rb") as null, log_of(self.project).open("wb") as log:
            streams = (null.fileno(), log.fileno(), log.fileno())
            answers = ask(str(self.place / SOCKET), words[1:], str(self.project), environment, streams)
        return WarmProcess(int(line_of(answers)), answers)


def start_warm(watched: int) -> Path:
    """The folder of a new warm process, which ends with the one that it watches; then the folder goes too."""
    folder = Path(tempfile.mkdtemp(prefix="warm-"))
    listening = folder / SOCKET
    python = f"{sys.executable} -IS {HERE / 'warm_python.py'} {listening} {sys.executable}"
    for name, words in {"python": "", "dvc": "-m dvc", "snakemake": "-m snakemake"}.items():
        (folder / name).write_text(f'#!/bin/sh\nexec {python} {words} "$@"\n')
        (folder / name).chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    # Read on import, before which a stage would have set it.
    environment |= {"MLFLOW_LOGGING_LEVEL": "CRITICAL", "MLFLOW_DISABLE_TELEMETRY": "true"}
    command = [sys.executable, "-P", str(HERE / "warm.py"), str(listening), str(watched)]
    process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, start_new_session=True)
    while not listening.exists():
        if process.poll() is not None:
            raise RuntimeError(f"the warm process has ended with {process.returncode}")
        time.sleep(0.01)
    return folder


def line_of(answers: socket.socket) -> str:
    """A line, byte by byte: what comes behind it stays there, for `select` to see."""
    line = b""
    while not line.endswith(b"\n"):
        byte = answers.recv(1)
        if not byte:
            raise EOFError("the warm process has ended")
        line += byte
    return line.decode()


def log_of(project: Path) -> Path:
    """Where the output of the last command lies."""
    return project / "last.log"
