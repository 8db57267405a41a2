"""A real tracking server on loopback."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: Longest wait for its first answer, and its longest life if whoever started it is killed.
START_SECONDS, LIFE_SECONDS = 300, 3600


def free_port() -> int:
    """Find a port on loopback that nobody listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def tracking_server(folder: Path) -> Iterator[str]:
    """Run MLflow's server, with all its files in a folder, and give its address once it answers."""
    port = free_port()
    command = ["timeout", str(LIFE_SECONDS), sys.executable, "-m", "mlflow", "server", "--workers", "1"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--backend-store-uri", f"sqlite:///{folder}/mlflow.db"]
    command += ["--artifacts-destination", str(folder / "files")]
    # Workers of its own, half a dozen processes, do nothing for runs.
    environment = os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=environment, start_new_session=True)
    try:
        end = time.monotonic() + START_SECONDS
        while not answers(port):
            assert process.poll() is None and time.monotonic() < end, (folder / "log").read_text()[-2000:]
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def answers(port: int) -> bool:
    """Return True where a server listens on loopback."""
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0
