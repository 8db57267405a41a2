"""Runs of a graph in a folder that is a project of its own: an engine, its output and its end."""

import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

from unequal.errors import UserError, say
from unequal.pipeline import engines
from unequal.pipeline.engines import command, stop_session, surroundings
from unequal.pipeline.folders import DVC_CONFIG, DVC_IGNORED
from unequal.runtime.files import write_bytes
from unequal.runtime.place import ROOT


def make_project(folder: Path) -> None:
    """Make a folder a DVC project of its own, of which git sees nothing."""
    write_bytes(folder / ".dvc/config", f"{DVC_CONFIG}    no_scm = true\n".encode())
    write_bytes(folder / ".dvcignore", DVC_IGNORED.encode())
    write_bytes(folder / ".gitignore", b"*\n")


def run_engine(
    folder: Path,
    engine: str,
    cores: int,
    targets: Sequence[str] = (),
    dry_run: bool = False,
    log: Path | None = None,
) -> None:
    """Run a graph of a folder, or continue it.

    Args:
        folder: folder that holds dvc.yaml.
        engine: `snakemake` or `dvc`.
        cores: number of stages that Snakemake runs at once.
        targets: stages, and further options of the engine; empty: all stages.
        dry_run: show what would run, without running it.
        log: file for Snakemake's output, of which only finished and failed stages are printed; None: print everything.

    Raises:
        UserError: the engine ended with an error.
    """
    if engine == "snakemake":
        words = command(ROOT, folder.resolve(), "--cores", str(cores), *(["-n"] if dry_run else []), *targets)
        where = ROOT
    else:
        stages = [target for target in targets if target != "check_params"]
        words = [sys.executable, "-m", "dvc", "repro", *(["--dry"] if dry_run else []), *stages]
        where = folder
    streams: dict[str, Any] = {} if log is None else {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    # The engine has a process session of its own, so that one signal reaches it and its stages exactly once, even where
    # a script ignores Ctrl-C.
    streams |= {"start_new_session": True, "preexec_fn": partial(signal.signal, signal.SIGINT, signal.SIG_DFL)}
    process: subprocess.Popen[bytes] = subprocess.Popen(words, cwd=where, env=surroundings(ROOT), **streams)
    try:
        if log is not None and process.stdout is not None:
            write_log(process.stdout, log)
        status = process.wait()
    except BaseException:
        say(f"Stopping: running stages save their state, for at most {engines.GRACE_SECONDS:.0f} s.", err=True)
        stop_session(process, engines.GRACE_SECONDS)
        raise
    if status:
        raise UserError(f"{folder}: {engine} ended with status {status}; logs of stages: {folder / 'logs'}")


#: Snakemake's lines on a finished stage, on the number of finished stages, and on a failed one.
ENDED, COUNTED, FAILED = (
    re.compile(pattern)
    for pattern in (r"Finished jobid: \d+ \(Rule: (\w+)\)", r"(\d+) of (\d+) steps", r"Error in rule (\w+):")
)


def write_log(output: IO[bytes], log: Path) -> None:
    """Write Snakemake's output to a log; print a line for each finished stage, and why a stage fails."""
    log.parent.mkdir(parents=True, exist_ok=True)
    stage, said = "", set()
    with log.open("wb") as file:
        for line in output:
            file.write(line)
            file.flush()
            text = line.decode(errors="replace").strip()
            if ended := ENDED.match(text):
                stage = ended[1]
            elif (counted := COUNTED.match(text)) and stage:
                say(f"  {counted[1]} of {counted[2]}: {stage}")
            elif (failed := FAILED.match(text)) and failed[1] not in said:
                said.add(failed[1])
                reason = last_line(log.with_name(f"{failed[1]}.log"))
                say(f"  {failed[1]} failed: {reason or 'its log is empty'}", err=True)


def last_line(path: Path) -> str:
    """Last line of a text file; empty where the file has none."""
    return path.read_text(encoding="utf-8", errors="replace").rstrip().rpartition("\n")[2] if path.exists() else ""
