"""Record in DVC what Snakemake has made: the outputs go into DVC's cache, and dvc.lock is written once."""

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unequal.errors import UserError
from unequal.pipeline.engines import snakemake
from unequal.pipeline.workdirs import checkout
from unequal.settings.strict import read_yaml

if TYPE_CHECKING:
    from dvc.stage import Stage

#: Columns of a line of `snakemake --summary`: the first names an output, the last what is to be done about it.
SUMMARY_COLUMNS = 6


def record(file: Path) -> int:
    """Record all stages of a dvc.yaml; their number.

    Raises:
        UserError: a stage's dependency or output is missing; nothing has been written then.
    """
    return write_lock(file, {}, stages_of(file))


def record_finished(file: Path) -> int:
    """Record the stages for which Snakemake has nothing to do, and keep other entries of the lock file; their number.

    Raises:
        UserError: Snakemake cannot read the graph.
    """
    folder = file.resolve().parent
    root = checkout(folder)
    summary = snakemake(root, folder.relative_to(root), {}, "--summary")
    if summary.returncode:
        raise UserError(f"{file}: snakemake --summary failed:\n{summary.stdout[-2000:]}")
    rows = [row.split("\t") for row in summary.stdout.splitlines()]
    current = {row[0]: row[-1] == "no update" for row in rows if len(row) == SUMMARY_COLUMNS}
    return write_lock(file, recorded(file), [one for one in stages_of(file) if is_current(one, current)])


def is_current(stage: "Stage", current: Mapping[str, bool]) -> bool:
    """Whether all of a stage's outputs are up to date."""
    return bool(stage.outs) and all(current.get(out.def_path, False) for out in stage.outs)


def stages_of(file: Path) -> list["Stage"]:
    """The stages of a dvc.yaml, by name."""
    from dvc.repo import Repo

    return sorted(Repo().stage.load_all(str(file)), key=lambda stage: stage.name)


def recorded(file: Path) -> dict[str, Any]:
    """Entries of the lock file next to a dvc.yaml, by stage."""
    lock = file.with_name("dvc.lock")
    return dict(read_yaml(lock)["stages"]) if lock.exists() else {}


def write_lock(file: Path, kept: Mapping[str, Any], stages: Sequence["Stage"]) -> int:
    """Take the outputs of stages into DVC's cache and write a lock file of them and of kept entries; their number.

    Raises:
        UserError: a stage's dependency or output is missing; nothing has been written then.
    """
    from dvc.stage.serialize import to_lockfile
    from dvc.utils.serialize import dump_yaml

    locked = dict(kept)
    with stages[0].repo.lock if stages else nullcontext():
        for item in (item for stage in stages for item in (*stage.deps, *stage.outs)):
            if not item.exists:
                raise UserError(f"{item}: missing; run `snakemake` to its end first")
        for stage in stages:
            stage.save()
            stage.commit()
            locked |= to_lockfile(stage)
        dump_yaml(str(file.with_name("dvc.lock")), {"schema": "2.0", "stages": spelt_out(dict(sorted(locked.items())))})
    return len(stages)


def spelt_out(document: dict[str, Any]) -> dict[str, Any]:
    """The document without shared parts: where settings share an anchor, the lock file would have aliases."""
    return dict(json.loads(json.dumps(document)))
