"""Pages in a browser: MLflow's of the runs, and DVC's plots as one page that needs no network."""

import base64
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from unequal.errors import UserError, say
from unequal.pipeline.mlflow_logger import MODELS_VIEW, MlflowLogger, database_file, experiment_number
from unequal.pipeline.params_files import read_params
from unequal.pipeline.secrets import without_secrets
from unequal.runtime.environment import Stopped
from unequal.runtime.files import write_bytes
from unequal.runtime.place import home

#: Seconds to wait for the first answer of the server, which imports MLflow in several processes.
START_SECONDS = 120
HOST = "127.0.0.1"
#: The libraries that draw DVC's plots, in loading order. Snakemake installs them for its own report.
LIBRARIES = ("vega", "vega-lite", "vega-embed")
#: Pattern of a plot with figures on DVC's page, or of a picture; a plot without figures is `{}`.
SHOWN = re.compile(r"var spec = \{[^}]|<img ")
#: Pattern of the file of a picture on DVC's page.
PICTURE = re.compile(r'(?<=<img src=")[^"]+(?=")')
HEAD = '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Plots</title>\n'


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
    database = database_file(uri, home())
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
    place = (
        f"experiments/{experiment}/runs?workflowType=machine_learning&viewStateShareKey={MODELS_VIEW}"
        if experiment
        else "experiments"
    )
    say(f"{without_secrets(server, server)}/#/{place}")
    if browser:
        webbrowser.open(f"{server}/#/{place}")


@contextmanager
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
        with suppress(OSError), urllib.request.urlopen(address, timeout=5):
            return
        time.sleep(0.5)
    late = "" if process.poll() is not None else f" within {START_SECONDS} s; try again when the machine is less busy"
    raise UserError(f"MLflow's server does not answer{late}; its own messages stand above")


def write_plots(page: Path, revisions: Sequence[str]) -> None:
    """Write the page of `dvc plots show`, or of `dvc plots diff` where commits are named.

    Raises UserError where DVC cannot draw, or there is nothing to draw yet.
    """
    from snakemake.assets import Assets

    scripts = "".join(f"<script>{Assets.get_content(f'{name}/{name}.js')}</script>\n" for name in LIBRARIES)
    with tempfile.TemporaryDirectory() as folder:
        template, drawn = Path(folder, "template.html"), Path(folder, "index.html")
        template.write_text(f"{HEAD}{scripts}</head><body>{{plot_divs}}</body></html>\n", encoding="utf-8")
        words = [sys.executable, "-m", "dvc", "plots", "diff" if revisions else "show", *revisions]
        words += ["--html-template", str(template), "--out", folder]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
            raise UserError(f"dvc plots: {errors[0].removeprefix('ERROR: ') if errors else done.stderr.strip()}")
        text = drawn.read_text(encoding="utf-8") if drawn.exists() else ""
        if not SHOWN.search(text.rpartition("</head>")[2]):
            raise UserError("dvc plots: nothing to draw yet; run `snakemake --cores all` or `dvc repro` first")
        say(*done.stderr.splitlines(), err=True)
        text = PICTURE.sub(lambda found: f"data:image/png;base64,{encoded(Path(folder, found[0]))}", text)
        write_bytes(page, text.encode())
    say(page)


def encoded(file: Path) -> str:
    """Content of a file in base64."""
    return base64.b64encode(file.read_bytes()).decode()
