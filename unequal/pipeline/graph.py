"""The graph of a dvc.yaml as DVC resolves it, and dvc.lock: which stages are stale, and the record of finished ones.

DVC compares the content of everything that a stage declares with dvc.lock. Snakemake alone would go by times, and by a
memory of its own that knows nothing of what DVC has made. So it runs `stale_stages`, and `record_finished` enters
what has finished, when it begins and when it ends: after each engine the other one has nothing to do.
"""

import json
import os
from collections.abc import Callable, Collection, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unequal.errors import UserError, say
from unequal.pipeline.digests import ALWAYS, LOCK, digest_of
from unequal.pipeline.sources import value_at
from unequal.pipeline.workdirs import Finished, clear_if_free, finished_runs
from unequal.runtime.files import settings_hash
from unequal.settings.strict import PARAMS, read_yaml

if TYPE_CHECKING:
    from dvc.stage import Stage

#: Stands for no value, where None is one.
MISSING = object()


def stages_of(graph: Path) -> list["Stage"]:
    """Return the stages of a dvc.yaml in the working directory, by name, without the one that always runs."""
    from dvc.repo import Repo

    stages = (stage for stage in Repo().stage.load_all(str(graph)) if stage.name != ALWAYS)
    return sorted(stages, key=lambda stage: stage.name)


def stale_stages(stages: Sequence["Stage"], read_by: Callable[["Stage"], Collection[str]]) -> set[str]:
    """Return the names of the stages that dvc.lock does not describe as they are now, and of all that follow them.

    Args:
        stages: of one graph.
        read_by: a stage → paths of the outputs that it waits for.
    """
    makers = {out.def_path: stage.name for stage in stages for out in stage.outs}
    before = {stage.name: {makers[path] for path in read_by(stage) if path in makers} for stage in stages}
    params = read_yaml(PARAMS)
    stale = {stage.name for stage in stages if is_changed(stage, params)}
    while more := {name for name, needed in before.items() if name not in stale and needed & stale}:
        stale |= more
    return stale


def is_changed(stage: "Stage", params: dict[str, Any]) -> bool:
    """Say whether the command, a dependency, a setting or an output of a stage differs from dvc.lock.

    DVC would read params.yaml four times for each stage.
    """
    keyed = [dep for dep in stage.deps if getattr(dep, "params", None)]
    recorded = {key: value for dep in keyed for key, value in (dep.hash_info.value or {}).items()}
    return (
        stage.changed_stage()
        or settings_hash(recorded) != settings_hash(declared_settings(stage, params))
        or any(item.status() for item in (*stage.deps, *stage.outs) if item not in keyed)
    )


def declared_settings(stage: "Stage", params: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that a stage declares in dvc.yaml, by their keys, as far as a params file has them."""
    keys = [key for dep in stage.deps for key in getattr(dep, "params", ()) or ()]
    values = {key: value_at(params, *key.split("."), absent=MISSING) for key in keys}
    return {key: value for key, value in values.items() if value is not MISSING}


def record_finished(graph: Path) -> list[str]:
    """Record in DVC what stages have finished here, and return their names; forget what is recorded.

    A run is recorded if its outputs are in place, if the settings that its stage declares and its inputs are those of
    now, and if all that its stage depends on is there. Any other stays unrecorded: both engines run the stage again.

    Raises:
        UserError: another process holds DVC's lock.
    """
    from dvc.lock import LockError

    forget_recorded()
    if not (runs := dict(finished_runs())):
        return []  # before the graph is read, which takes seconds where it is large
    by_outputs = {frozenset(out.def_path for out in stage.outs): stage for stage in stages_of(graph)}
    digest, params = cache(lambda path: digest_of(Path(path)) if Path(path).exists() else None), read_yaml(PARAMS)
    done: dict[Path, Stage] = {}
    for work, run in runs.items():
        stage = by_outputs.get(frozenset(run.outputs))
        if (
            stage is not None
            and all(dep.exists for dep in stage.deps)
            and settings_hash(declared_settings(stage, params)) == settings_hash(declared_settings(stage, run.params))
            and all(digest(path) == known for path, known in (run.outputs | run.inputs).items())
        ):
            done[work] = stage
    if not done:
        return []
    try:
        write_lock(graph, list(done.values()))
    except LockError:
        raise UserError(f"{graph}: another process uses DVC; start Snakemake again when it has ended") from None
    for work in done:
        clear_if_free(work)
    return sorted(stage.name for stage in done.values())


def record_or_report(graph: Path) -> None:
    """Record what has finished; where another process holds DVC's lock, print the one line that says how to later."""
    try:
        record_finished(graph)
    except UserError as error:
        say(f"Error: {error}", err=True)


def forget_recorded() -> None:
    """Delete the stored outputs of runs that dvc.lock has: a stage that is started again is to be computed again."""
    entries = list(read_yaml(LOCK)["stages"].values()) if LOCK.exists() else []
    for work, run in finished_runs() if entries else ():
        if any(is_recorded(run, entry) for entry in entries):
            clear_if_free(work)


def is_recorded(run: Finished, entry: dict[str, Any]) -> bool:
    """Say whether an entry of dvc.lock is that of a run: its outputs, inputs and settings."""
    read, made = ({item["path"]: item.get("md5") for item in entry.get(kind, ())} for kind in ("deps", "outs"))
    settings = entry.get("params", {}).get(str(PARAMS), {})
    return (
        all(made.get(path) == digest for path, digest in run.outputs.items())
        and all(read.get(path, digest) == digest for path, digest in run.inputs.items())
        and all(value_at(run.params, *key.split(".")) == value for key, value in settings.items())
    )


def write_lock(graph: Path, stages: Sequence["Stage"]) -> None:
    """Take the outputs of stages into DVC's cache and describe the stages in dvc.lock; other entries stay.

    `dvc commit` does the same, and asks for each stage that has changed.
    """
    from dvc.stage.serialize import to_lockfile
    from dvc.utils.serialize import dump_yaml

    lock = graph.with_name(LOCK.name)
    with stages[0].repo.lock:
        entries: dict[str, Any] = dict(read_yaml(lock)["stages"]) if lock.exists() else {}
        for stage in stages:
            stage.save()
            stage.commit()
            entries |= to_lockfile(stage)
        # A copy in which nothing is shared: settings that share an anchor would become aliases in the file.
        document = {"schema": "2.0", "stages": json.loads(json.dumps(dict(sorted(entries.items()))))}
        dump_yaml(str(new := lock.with_name("dvc.lock.new")), document)
        os.replace(new, lock)
