"""Engines from Python: Snakemake on the graph of a folder, and how an engine is stopped with all that it runs."""

import logging
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import psutil

from unequal.errors import say
from unequal.pipeline.folders import shipped
from unequal.runtime.files import json_or_none
from unequal.runtime.processes import GOES_ON

#: First line of a report's summary of a run, in its log.
SUMMARY = "Summary of the run"
#: Lock of a running Snakemake, in its folder; see `unequal.pipeline.snakemake`.
ALONE = Path(".snakemake/alone.lock")
#: Seconds between checks whether it has ended, or is to be stopped.
POLL_SECONDS = 0.2
#: An engine and its stages that are to stop are killed after so many seconds.
GRACE_SECONDS = 20.0


class StopFilter(logging.Filter):
    """Filter of Snakemake's log: once it is asked to stop, jobs that end are no errors.

    Attributes:
        stopped: whether it was asked to.
    """

    ASKED = "Terminating processes on user request"

    def __init__(self) -> None:
        super().__init__()
        self.stopped, self.since = False, time.time()

    def filter(self, record: logging.LogRecord) -> bool:
        """Drop what comes after Snakemake's line on stopping, which is replaced."""
        if self.stopped:
            return False
        if str(record.msg).startswith(self.ASKED):
            self.stopped = True
            record.msg, record.args = "Stopping: running stages save their state first.", ()
        return True

    def report(self, logs: Path) -> None:
        """Print where the stages that wrote a log meanwhile were stopped, and how they go on."""
        if not self.stopped:
            return
        written = [log for log in sorted(logs.glob("*.log")) if log.stat().st_mtime >= self.since]
        for log in written:
            line = log.read_text(encoding="utf-8", errors="replace").rstrip().rpartition("\n")[2]
            if line.endswith(GOES_ON):
                say(f"{log.stem}: {line.partition(': ')[2]}", err=True)
        say(f"Stopped; {GOES_ON}.", err=True)


def interrupt_once() -> None:
    """Let the first SIGINT alone interrupt this process, unless it ignores them.

    `uv run` without a terminal passes on what the whole process group gets, so SIGINT arrives twice. A second one would
    end Snakemake before it reports where stages were stopped. Those get a second Ctrl-C themselves.
    """

    def interrupt(number: int, _: FrameType | None) -> None:
        signal.signal(number, lambda *_: None)
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)


def print_summary(log: Path, since: float) -> None:
    """Print the summary that a report has left in its log, if it was written after a moment."""
    if log.exists() and log.stat().st_mtime >= since:
        _, head, text = log.read_text(encoding="utf-8", errors="replace").rpartition(f"{SUMMARY}\n")
        if head:
            say("", SUMMARY, *text.rstrip().splitlines())


def print_recommendation(take: Path) -> None:
    """Print which model a finished run recommends, from results/take.json; nothing where there is none."""
    match json_or_none(take):
        case {"model": str(model), "fid": float(fid)}:
            page, sample = take.with_name("report.html"), f"unequal sample {model} --count 64 --grid"
            say(f"Nothing is left to do. The model to take is {model}, FID {fid:.3g}: {page}; {sample}", err=True)


def stop_session(leader: "subprocess.Popen[Any]", seconds: float) -> None:
    """Interrupt a process that leads a session, once and with all of the session; return when none of them is left.

    What is left after some seconds is killed. A second signal, which raises in here, has it killed at once. Snakemake
    waits for itself forever if a second SIGTERM reaches it within its handler of the first.
    """
    tree = family(leader.pid)
    with suppress(ProcessLookupError):
        os.killpg(leader.pid, signal.SIGINT)
    try:
        psutil.wait_procs(tree, timeout=seconds)
    finally:
        left = {one for member in tree if member.is_running() for one in family(member.pid)}
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        leader.wait()
        psutil.wait_procs(left, timeout=1)


def family(pid: int) -> list[psutil.Process]:
    """List a process and all below it; nothing where there is none."""
    try:
        first = psutil.Process(pid)
        return [first, *first.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def command(root: Path, folder: Path, *options: str) -> list[str]:
    """Build the command, with the Python that runs this."""
    rules = ["--snakefile", shipped("Snakefile"), "--workflow-profile", shipped("profiles/default")]
    return [sys.executable, "-m", "snakemake", *options, *rules, "--directory", str(root / folder)]


def surroundings(root: Path) -> dict[str, str]:
    """Return an environment in which the project's code and this Python's programs are found first."""
    path, own = os.environ["PATH"], str(Path(sys.executable).parent)
    if own not in path.split(os.pathsep):
        path = f"{own}{os.pathsep}{path}"
    return os.environ | {"PATH": path, "PYTHONPATH": str(root)}
