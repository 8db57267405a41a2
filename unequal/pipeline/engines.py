"""Snakemake on the graph of a folder, from Python."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from filelock import FileLock

from unequal.pipeline.attempt import DVC_STAGE, ENGINE
from unequal.processes import stop_deferred

#: Of a Snakemake in its folder; see the Snakefile.
ALONE = Path(".snakemake/alone.lock")
#: How long to wait before looking again whether it has ended, or is to be stopped.
POLL_SECONDS = 0.2


def snakemake(root: Path, folder: Path, environment: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    """Run a project's Snakefile on the graph of a folder; its output, both streams together."""
    return subprocess.run(
        command(root, folder, *options),
        cwd=root,
        env=surroundings(root) | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def snakemake_inside(root: Path, folder: Path, *options: str) -> int:
    """The same inside of a stage: its output goes to stderr, and it is told where the stage is to stop. Its status.

    One that has outlived an earlier attempt is waited for: what it finishes need not be made again.
    """
    (root / folder / ALONE).parent.mkdir(parents=True, exist_ok=True)
    FileLock(root / folder / ALONE).acquire().lock.release()
    own = {name: value for name, value in surroundings(root).items() if name not in {ENGINE, DVC_STAGE}}
    with stop_deferred() as stopped:
        # In a session of its own: all of it, jobs as well, is told at once, and once.
        process = subprocess.Popen(
            command(root, folder, *options), cwd=root, env=own, stdout=sys.stderr, start_new_session=True
        )
        told = False
        while process.poll() is None:
            if stopped() and not told:
                os.killpg(process.pid, signal.SIGTERM)
                told = True
            try:
                process.wait(POLL_SECONDS)
            except subprocess.TimeoutExpired:
                continue
    return process.returncode


def command(root: Path, folder: Path, *options: str) -> list[str]:
    """By the Python that runs this."""
    return [sys.executable, "-m", "snakemake", *options, "--directory", str(root / folder)]


def surroundings(root: Path) -> dict[str, str]:
    """The environment, in which the project's own code and this Python's programs are found first."""
    path, own = os.environ["PATH"], str(Path(sys.executable).parent)
    if own not in path.split(os.pathsep):
        path = f"{own}{os.pathsep}{path}"
    return os.environ | {"PATH": path, "PYTHONPATH": str(root)}
