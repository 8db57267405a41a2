"""Work directories: `work/<stage>-<hash of its settings, inputs and code>/`, each with a lock.

A stage keeps its resumable state there, and writes its outputs there, from where they move into place at once. Engines
delete outputs before a run, and one that is killed has recorded nothing of the stages that outlive it. So outputs stay
in the work directory as hard links, which take no disk, with a note (`Finished`) until dvc.lock has them: the same run,
started again, puts them into place again. Whatever would change a result changes the name of the directory.
"""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from filelock import FileLock, Timeout
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from unequal.errors import UserError, say
from unequal.runtime.files import json_or_none, link, read_facts, write_json
from unequal.runtime.place import work_root

#: In a work directory: outputs, the note of a finished run, the hash of what its training may resume from.
OUTPUTS, NOTE, KIN = "outputs", "finished.json", "kin.json"
#: States of trainings.
STATES = re.compile(r"(before-)?checkpoint\.safetensors|(snapshot|averages)-[0-9]+\.safetensors")
#: How many unfinished states of other settings, inputs or code stay for each stage instance, to be resumed.
STATES_STORED = 8


def inside(path: str) -> str:
    """Return a path that stays below the folder that it starts from. Raises ValueError for any other."""
    if Path(path).is_absolute() or ".." in Path(path).parts or not Path(path).parts:
        raise ValueError(f"{path}: leads out of the folder of the run")
    return path


#: Somebody who can write into a shared `work/` must not choose which files are replaced elsewhere.
Inside = Annotated[str, AfterValidator(inside)]


class Finished(BaseModel):
    """The note of a finished run.

    Attributes:
        stage: the stage's instance.
        folder: where it ran.
        params: content of params.yaml when it was read.
        inputs, outputs: path from that folder → digest.
        results, parent_results: logged figures, the latter with the whole pipeline.
        parent_artifacts: outputs that are logged with the whole pipeline too.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    stage: str
    folder: str
    params: dict[str, Any]
    inputs: dict[Inside, str]
    outputs: dict[Inside, str]
    results: dict[str, Any]
    parent_results: dict[str, float]
    parent_artifacts: list[Inside]


def read_note(work: Path) -> Finished | None:
    """Read the note of a finished run; None where there is none that can be read."""
    try:
        return Finished.model_validate(read_facts(work / NOTE))
    except ValidationError:
        return None


def finished_runs() -> Iterator[tuple[Path, Finished]]:
    """Yield the work directories of runs that have finished in the working directory, with their notes."""
    for note in sorted(work_root().glob(f"*/{NOTE}")):
        if (run := read_note(note.parent)) is not None and run.folder == str(Path.cwd()):
            yield note.parent, run


def clear_finished() -> None:
    """Delete the stored outputs of this folder's finished runs, so that they are made again."""
    for work, _ in finished_runs():
        clear_if_free(work)


def clear_if_free(work: Path) -> None:
    """Delete a work directory, unless a stage is at work in it."""
    with try_lock(work) as free:
        if free:
            clear(work)


def ensure_dir(folder: Path) -> Path:
    """Make a folder if it is missing, and return it. Raises UserError where a file stands there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise UserError(f"{folder}: a folder of resumable states is to be here; move what stands there away") from None
    return folder


def lock_of(work: Path) -> FileLock:
    """Return the lock of a work directory, which the operating system frees with the process that holds it."""
    return FileLock(work.with_name(f"{work.name}.lock"))


def acquire(work: Path) -> FileLock:
    """Take the lock of a work directory; wait for the process that holds it.

    That one does the same work: a stage that has outlived its engine, or a job that a cluster has ended, which still
    saves while its retry begins.
    """
    lock = lock_of(work)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        say(f"{work}: waiting for another process that is at work on the same; end it to go on at once", err=True)
        lock.acquire(poll_interval=0.2)
    return lock


def release(lock: FileLock) -> None:
    """Unlock a work directory, and delete the file of its lock."""
    # Deleted while held: whoever opened the old file notices that it is gone and makes a new one.
    Path(lock.lock_file).unlink(missing_ok=True)
    lock.release()


@contextmanager
def try_lock(work: Path) -> Iterator[bool]:
    """Hold a work directory's lock as a stage does; yield False, without waiting, where a stage is at work in it."""
    lock = lock_of(work)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        release(lock)


def clear(work: Path) -> None:
    """Delete a work directory whose lock is held, and the rest of an earlier deletion."""
    trash = work.with_name(f".{work.name}.cleared")
    shutil.rmtree(trash, ignore_errors=True)
    if work.exists():
        # Renamed first: a kill while files are deleted one by one would leave a partial state.
        work.rename(trash)
        shutil.rmtree(trash, ignore_errors=True)


def tidy(work: Path, instance: str) -> None:
    """Delete an instance's other finished runs in this folder, and its oldest unfinished states."""
    others = sorted(states_of(instance, work), key=lambda path: path.stat().st_mtime, reverse=True)
    here = {other for other, _ in finished_runs()}
    unfinished = [other for other in others if not (other / NOTE).exists()]
    for other in [*(other for other in others if other in here), *unfinished[STATES_STORED:]]:
        clear_if_free(other)


def adopt_states(work: Path, instance: str, kin: str) -> None:
    """Give a new work directory the states of the newest one that differs by milestones of the learning rate alone.

    A training decides which of them it can resume from.
    """
    if (work / KIN).exists():
        return
    others = [other for other in states_of(instance, work) if json_or_none(other / KIN) == kin]
    for other in sorted(others, key=lambda path: path.stat().st_mtime)[-1:]:
        with try_lock(other) as free:
            for file in other.rglob("*") if free else ():
                if STATES.fullmatch(file.name) and OUTPUTS not in file.relative_to(other).parts:
                    place = ensure_dir(work / file.parent.relative_to(other)) / file.name
                    place.unlink(missing_ok=True)
                    link(file, place)
    write_json(work / KIN, kin)


def states_of(instance: str, besides: Path) -> list[Path]:
    """List the other work directories of a stage instance."""
    name = re.compile(rf"{re.escape(instance)}-[0-9a-f]{{12}}")
    return [
        path for path in besides.parent.iterdir() if path != besides and name.fullmatch(path.name) and path.is_dir()
    ]
