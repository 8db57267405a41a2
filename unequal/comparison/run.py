"""Runs of a comparison in a folder: the graph is written, and an engine runs it."""

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import yaml

from unequal.code import ROOT
from unequal.errors import UserError, say
from unequal.pipeline import engines
from unequal.pipeline.engines import command, stop_session, surroundings
from unequal.runtime.files import write_bytes
from unequal.settings.strict import PARAMS, read_yaml

#: The graph of every comparison, and the file of a folder's own stages, which extend or replace the graph's.
SHARED, OWN, GRAPH = Path(__file__).with_name("graph.yaml"), "stages.yaml", "dvc.yaml"
#: First line of a graph that this module has written; a graph without it belongs to the folder and is not changed.
LAID = "# Laid by `unequal compare` from the shared graph; a change of it is lost."
#: Configuration that makes a folder a DVC project of its own, so that an enclosing project ignores its stages.
DVC_CONFIG = "[core]\n    analytics = false\n    autostage = false\n    no_scm = true\n"
#: Paths that git ignores in the folder: all generated files except the results.
GIT_IGNORED = ".gitignore\n.dvc\n.dvcignore\n.snakemake\ndvc.lock\nartifacts\nlogs\nwork\nmlflow.db*\nmlartifacts\n"
DVC_IGNORED = "__pycache__\n.snakemake_timestamp\n.snakemake\nlogs\nwork\nmlartifacts\n"
#: Stages of the pilot, and its judgement.
PILOT_TARGETS, PILOT = ("check_params", "judge_pilot"), Path("results/pilot.json")


def prepare(folder: Path) -> None:
    """Make a folder with a params.yaml ready for an engine.

    Raises:
        UserError: params.yaml is missing, or an entry of stages.yaml is not a stage.
    """
    if not (folder / PARAMS).exists():
        raise UserError(f"{folder}: no {PARAMS}; allowed: a folder with the settings of a comparison")
    graph = folder / GRAPH
    if not graph.exists() or graph.read_text(encoding="utf-8").startswith(LAID):
        lay(graph, laid(SHARED, folder / OWN))
        make_project(folder, ignored="/dvc.yaml\n")
    else:
        make_project(folder)


@contextmanager
def as_it_was(folder: Path) -> Iterator[None]:
    """Remove what a dry run creates in a folder; nothing is removed if a real run starts meanwhile."""
    before = set(folder.iterdir())
    try:
        yield
    finally:
        made = set(folder.iterdir()) - before
        if not {one.name for one in made} & {"logs", "work"}:
            for one in made:
                shutil.rmtree(one) if one.is_dir() else one.unlink()


def lay(graph: Path, text: str) -> None:
    """Write a graph if its text differs from the file's."""
    if not graph.exists() or graph.read_text(encoding="utf-8") != text:
        write_bytes(graph, text.encode())


def make_project(folder: Path, ignored: str = "") -> None:
    """Make a folder a DVC project of its own, and have git ignore what engines leave there.

    Args:
        folder: the folder; an existing DVC project is not changed.
        ignored: further lines of its .gitignore.

    Raises:
        UserError: the installation is not a checkout, so that programs of stages are missing.
    """
    if not (ROOT / "Snakefile").exists():
        raise UserError(f"{ROOT}: no checkout of the project; stages are its programs: install it by `pip install -e`")
    if not (folder / ".dvc").is_dir():
        write_bytes(folder / ".dvc/config", DVC_CONFIG.encode())
        write_bytes(folder / ".dvcignore", DVC_IGNORED.encode())
    own = (folder / ".dvc/config").read_bytes() == DVC_CONFIG.encode()  # without git, DVC accepts an ignored graph
    if own and not (folder / ".gitignore").exists():
        write_bytes(folder / ".gitignore", f"{GIT_IGNORED}{ignored}".encode())


def laid(shared: Path, own: Path) -> str:
    """Merge a folder's own stages into the shared graph: an equal name replaces a stage, null removes it."""
    if not own.exists():
        return f"{LAID}\n{shared.read_text(encoding='utf-8')}"
    document, added = read_yaml(shared), read_yaml(own)
    for name, stage in added.items():
        if stage is not None and not isinstance(stage, dict):
            raise UserError(f"{own}: {name}: {stage!r} is no stage; allowed: a stage as in dvc.yaml, or null")
    stages = {name: one for name, one in (document["stages"] | added).items() if one is not None}
    plain = json.loads(json.dumps(document | {"stages": stages}))  # without aliases
    return f"{LAID}\n{yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=120)}"


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


def pilot_lines(pilot: Mapping[str, Any]) -> Iterator[str]:
    """Yield the judgement of a pilot as lines of text."""
    for name, one in pilot["endpoints"].items():
        visible, needed, sd = (f"{one[key]:.2%}" for key in ("visible_effect", "needed", "deviation"))
        blocks = one["blocks_needed"] or "more than 40"
        yield f"{name}: detects {visible}, needs {needed}: {blocks} blocks; trainings scatter by {sd}"
    yield from (f"{arm}: best of {', '.join(one['tried'])}: {one['best']}" for arm, one in pilot["tries"].items())
    yield f"the comparison as planned, on one thread here: {pilot['study_seconds'] / 3600:.1f} hours"
