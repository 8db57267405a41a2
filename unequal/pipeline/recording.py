"""Stale stages, and the record of finished ones: dvc.lock answers for both engines.

DVC compares the content of everything that a stage declares with dvc.lock. Snakemake alone would go by times, and by a
memory of its own that knows nothing of what DVC has made. So the Snakefile asks `stale_stages` which stages to run, and
records what has finished by `record_finished`, when it begins and when it ends.
"""

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unequal.errors import UserError, say
from unequal.pipeline.attempt import Finished, clear_finished, finished_runs
from unequal.pipeline.fingerprint import CODE
from unequal.pipeline.sources import value_at
from unequal.runtime.files import content_hash, json_or_none, settings_hash
from unequal.settings.strict import PARAMS, read_yaml

if TYPE_CHECKING:
    from dvc.stage import Stage

#: The stage behind all others, which DVC always runs; under Snakemake the main process does its work.
ALWAYS = "code"
#: Stands for no value, where None is one.
MISSING = object()


def stages_of(graph: Path) -> list["Stage"]:
    """Return the stages of a dvc.yaml in the working directory, by name, without the one that always runs."""
    from dvc.repo import Repo

    found = (stage for stage in Repo().stage.load_all(str(graph)) if stage.name != ALWAYS)
    return sorted(found, key=lambda stage: stage.name)


def stale_stages(stages: Sequence["Stage"], read_by: Callable[["Stage"], Collection[str]]) -> set[str]:
    """Return the names of the stages that dvc.lock does not describe as they are now, and of all that follow them.

    Args:
        stages: of one graph.
        read_by: a stage → paths of the outputs that it waits for.
    """
    makers = {out.def_path: stage.name for stage in stages for out in stage.outs}
    before = {stage.name: {makers[path] for path in read_by(stage) if path in makers} for stage in stages}
    with settings_read_once():
        stale = {stage.name for stage in stages if is_changed(stage)}
    while more := {name for name, needed in before.items() if name not in stale and needed & stale}:
        stale |= more
    return stale


@contextmanager
def settings_read_once() -> Iterator[None]:
    """Have DVC read each params file once within the block, and look keys up.

    DVC parses the file up to four times for every stage, and walks through all of it for each key.
    """
    from dvc.dependency import param

    read = param.read_param_file
    documents: dict[str, Any] = {}

    def looked_up(fs: Any, path: str, keys: Sequence[str] | None = None, flatten: bool = False) -> Any:
        if not keys or not flatten:
            return read(fs, path, keys, flatten)
        if path not in documents:
            documents[path] = read(fs, path)
        values = {key: value_at(documents[path], *key.split("."), absent=MISSING) for key in keys}
        return {key: value for key, value in values.items() if value is not MISSING}

    param.read_param_file = looked_up
    try:
        yield
    finally:
        param.read_param_file = read


def is_changed(stage: "Stage") -> bool:
    """Say whether the command, a dependency, a setting or an output of a stage differs from dvc.lock."""
    return stage.changed_stage() or any(item.status() for item in (*stage.deps, *stage.outs))


def record_finished(graph: Path) -> list[str]:
    """Record in DVC what stages have finished here, and return their names.

    A run is recorded if its outputs are in place, if the settings that its stage declares, its inputs and its code are
    those of now, and if all that its stage depends on is there. Any other stays unrecorded: both engines run the stage
    again.

    Raises:
        UserError: another process holds DVC's lock.
    """
    from dvc.lock import LockError

    if not (runs := dict(current_runs())):
        return []  # before the graph is read, which takes seconds where it is large
    by_outputs = {frozenset(out.def_path for out in stage.outs): stage for stage in stages_of(graph)}
    stages = {work: by_outputs.get(frozenset(run.outputs)) for work, run in runs.items()}
    document = read_yaml(PARAMS)
    found = {
        work: stage
        for work, stage in stages.items()
        if stage and all(dep.exists for dep in stage.deps) and same_settings(stage, runs[work].params, document)
    }
    if not found:
        return []
    try:
        write_lock(graph, list(found.values()))
    except LockError:
        raise UserError(f"{graph}: another process uses DVC; start Snakemake again when it has ended") from None
    for work in found:
        clear_finished(work)
    return sorted(stage.name for stage in found.values())


def same_settings(stage: "Stage", before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Say whether the settings that a stage declares are equal in two contents of params.yaml.

    Other settings may be edited while an engine runs.
    """
    from dvc.dependency.param import ParamsDependency

    own = [dep for dep in stage.deps if dep.def_path == str(PARAMS)]
    if not all(isinstance(dep, ParamsDependency) and dep.params for dep in own):
        return settings_hash(before) == settings_hash(now)  # it reads the whole file
    keys = [key.split(".") for dep in own for key in dep.params]
    earlier, present = ([value_at(one, *key, absent=MISSING) for key in keys] for one in (before, now))
    return settings_hash(earlier) == settings_hash(present)


def record_or_report(graph: Path) -> None:
    """Record what has finished; where another process holds DVC's lock, print the one line that says how to later."""
    try:
        record_finished(graph)
    except UserError as error:
        say(f"Error: {error}", err=True)


def current_runs() -> Iterator[tuple[Path, Finished]]:
    """Yield the work directories of finished runs of this folder, with their notes, whose conditions still hold."""
    hashed = cache(lambda path: content_hash(Path(path)) if Path(path).exists() else None)
    for work, run in finished_runs():
        contents = run.outputs | run.inputs
        if run.folder != str(Path.cwd()) or json_or_none(CODE / f"{run.stage}.json") != run.code:
            continue
        if all(hashed(path) == known for path, known in contents.items()):
            yield work, run


def write_lock(graph: Path, stages: Sequence["Stage"]) -> None:
    """Take the outputs of stages into DVC's cache and describe the stages in dvc.lock; other entries stay.

    `dvc commit` does the same, and parses the settings again four times for each stage: minutes for hundreds.
    """
    from dvc.stage.serialize import to_lockfile
    from dvc.utils.serialize import dump_yaml

    lock = graph.with_name("dvc.lock")
    with stages[0].repo.lock, settings_read_once():
        entries: dict[str, Any] = dict(read_yaml(lock)["stages"]) if lock.exists() else {}
        for stage in stages:
            stage.save()
            stage.commit()
            entries |= to_lockfile(stage)
        # A copy in which nothing is shared: settings that share an anchor would become aliases in the file.
        document = {"schema": "2.0", "stages": json.loads(json.dumps(dict(sorted(entries.items()))))}
        dump_yaml(str(new := lock.with_name("dvc.lock.new")), document)
        os.replace(new, lock)
