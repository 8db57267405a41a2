"""A real tracking server on loopback, which can be killed and come back at the same address."""

import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

#: Longest wait for its first answer, and its longest life if whoever started it is killed.
START_SECONDS, LIFE_SECONDS = 300, 3600


def free_port() -> int:
    """Find a port on loopback that nobody listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@dataclass
class Server:
    """MLflow's server; it runs within the block."""

    folder: Path
    process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.port = free_port()
        self.uri = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()

    def start(self) -> None:
        """Start it, unless it runs, and wait until it answers. Raises RuntimeError where it does not."""
        if self.process is None:
            command = ["timeout", str(LIFE_SECONDS), sys.executable, "-m", "mlflow", "server", "--workers", "1"]
            command += ["--host", "127.0.0.1", "--port", str(self.port)]
            command += ["--backend-store-uri", f"sqlite:///{self.folder}/mlflow.db"]
            command += ["--artifacts-destination", str(self.folder / "files")]
            # Workers of its own, half a dozen processes, do nothing for runs.
            environment = os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
            with (self.folder / "log").open("ab") as log:
                self.process = subprocess.Popen(
                    command, stdout=log, stderr=log, cwd=self.folder, env=environment, start_new_session=True
                )
        end = time.monotonic() + START_SECONDS
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"no tracking server: {(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.1)

    def answers(self) -> bool:
        """Return True where a server listens."""
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self) -> None:
        """Kill it and its workers, if it runs."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None
