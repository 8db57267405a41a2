"""MLflow's pages of the project's runs, opened where the runs are: `unequal ui`."""

import contextlib
import socket
import subprocess
import sys
import time
import urllib.request
import webbrowser
from collections.abc import Iterator
from pathlib import Path

from unequal.errors import UserError, say
from unequal.pipeline.mlflow_logger import MlflowLogger, database_file, experiment_number
from unequal.pipeline.params_files import read_params
from unequal.pipeline.secrets import without_secrets
from unequal.pipeline.workdirs import project_root
from unequal.runtime.environment import Stopped

#: Seconds to wait for the first answer of the server, which imports MLflow in several processes.
START_SECONDS = 120
HOST = "127.0.0.1"


def open_pages(params: Path, port: int, browser: bool) -> None:
    """Serve the pages until the process is stopped, and print and open the address of the runs.

    Args:
        params: the params file, whose `runtime.tracking` says where runs are logged.
        port: port of the server on this machine; a tracking server elsewhere has its own.

    Raises:
        UserError: nothing was logged yet, the port is taken, or the server ends.
    """
    tracking = read_params(params).runtime.tracking
    if tracking.logger != "mlflow":
        raise UserError(f"{params}: runtime.tracking.logger: '{tracking.logger}'; pages are of runs logged by mlflow")
    uri = MlflowLogger.address(tracking)
    database = database_file(uri, project_root())
    if database is None:
        show(uri.rstrip("/"), experiment_number(uri, tracking.experiment), browser)
        return
    if not database.exists():
        raise UserError(f"{database}: no run was logged yet; run the pipeline first")
    say("MLflow's server starts, which takes up to a minute …", err=True)
    with server(f"sqlite:///{database}", port) as process:
        show(f"http://{HOST}:{port}", experiment_number(f"sqlite:///{database}", tracking.experiment), browser)
        say("Ctrl-C ends the server.")
        try:
            process.wait()
        except Stopped as stopped:  # a server has nothing that could go on
            sys.exit(128 + stopped.number)


def show(server: str, experiment: str | None, browser: bool) -> None:
    """Print the address of an experiment's runs, which MLflow's first page does not show, and open it."""
    place = f"experiments/{experiment}/runs?workflowType=machine_learning" if experiment else "experiments"
    say(f"{without_secrets(server, server)}/#/{place}")
    if browser:
        webbrowser.open(f"{server}/#/{place}")


@contextlib.contextmanager
def server(uri: str, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run MLflow's server on a port of this machine, and end it when the context ends."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise UserError(f"port {port}: {error.strerror}; name another with --port") from None
    command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", uri, "--host", HOST]
    process = subprocess.Popen([*command, "--port", str(port), "--workers", "1"], stdout=subprocess.DEVNULL)
    try:
        wait_for(f"http://{HOST}:{port}/health", process)
        yield process
    finally:
        process.terminate()
        process.wait()


def wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until a server answers. Raises UserError where its process ends, or takes too long."""
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=5):
            return
        time.sleep(0.5)
    late = "" if process.poll() is not None else f" within {START_SECONDS} s; try again when the machine is less busy"
    raise UserError(f"MLflow's server does not answer{late}; its own messages stand above")
