"""Stages of a project, and what each of them has made or saved on its way."""

import csv
import hashlib
import json
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import networkx as nx
from dvc.repo import Repo

from unequal.experts.bank import STATE
from unequal.runtime.files import files_below, read_facts
from unequal.runtime.tensor_files import saved_or_none
from unequal.training.checkpoint import previous_path
from unequal.training.loop import CHECKPOINT

#: Measured in seconds, and so another one in every run.
SPEED = {"images_per_second", "compute_seconds", "mfu"}


@dataclass(frozen=True)
class Stage:
    """A stage instance: its name, its command's words, the paths that it makes."""

    name: str
    words: tuple[str, ...]
    outputs: tuple[str, ...]


def stages_up_to(project: Path, names: Sequence[str]) -> list[Stage]:
    """These stage instances and all that they need, each behind those that it needs."""
    graph = Repo(str(project)).index.graph
    # Studies have stages of the same names.
    by_name = {stage.name: stage for stage in graph if stage.path_in_repo == "dvc.yaml"}
    needed = {one.name: one for name in names for one in nx.dfs_postorder_nodes(graph, by_name[name])}
    return [
        Stage(name, tuple(shlex.split(one.cmd)), tuple(out.def_path for out in one.outs))
        for name, one in needed.items()
    ]


def made_by(project: Path, stage: Stage) -> dict[str, str]:
    """Path → digest of each file that a stage has made, measured speeds left out."""
    files = [file for output in stage.outputs for file in files_below(project / output) if file.exists()]
    return {str(file.relative_to(project)): hashlib.sha256(without_speeds(file)).hexdigest() for file in files}


def without_speeds(file: Path) -> bytes:
    """A file's content, without the speeds in the log of a training."""
    if file.suffix == ".jsonl":
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    elif file.suffix == ".csv":
        rows = [*csv.DictReader(file.read_text(encoding="utf-8").splitlines())]
    else:
        return file.read_bytes()
    return repr([{name: value for name, value in row.items() if name not in SPEED} for row in rows]).encode()


def clear(project: Path, stage: Stage) -> None:
    """Delete what a stage has made, as engines do before they run it."""
    for path in (project / output for output in stage.outputs):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def saved(project: Path, stage: Stage) -> int:
    """Count the saved progress of a running or killed stage: steps of a training, finished parts, candidates tried."""
    program, options = stage.name.partition("@")[0], stage.words[4::2]
    folders = [*(project / "work").glob("-".join((program, *options, "*/")))]
    assert len(folders) <= 1, f"two states of one stage: {folders}"
    return sum(map(saved_in, folders))


def saved_in(work: Path) -> int:
    """Count the saved progress in a work directory."""
    candidates = read_facts(work / STATE) or []
    return steps_in(work / CHECKPOINT) + len(candidates) + len([*work.rglob("[!.]*.chunk")])


def steps_in(checkpoint: Path) -> int:
    """Steps behind a checkpoint, or the one before it while it is replaced; 0: none."""
    states = (saved_or_none(path) for path in (checkpoint, previous_path(checkpoint)))
    return next((int(state.facts["step"]) for state in states if state is not None), 0)
