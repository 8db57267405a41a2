"""Work directories: folders in the project's `work/`, one for each run of a stage, each with a lock."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from unequal.errors import UserError, say
from unequal.runtime.files import json_or_none, link, write_json
from unequal.runtime.outside import DVC_COPIES

#: Folder that marks a project, whose clone may have any name.
MARK = ".dvc"


def checkout(here: Path) -> Path:
    """Find the project, or DVC's copy of one, that contains a folder; the folder itself where there is none."""
    return next((folder for folder in (here, *here.parents) if (folder / MARK).is_dir()), here)


def study() -> str | None:
    """Name the study that contains the working directory, by its path below `studies`; None where there is none."""
    here = Path.cwd()
    return "/".join(here.relative_to(checkout(here)).parts[1:]) or None


def project_root() -> Path:
    """Find the folder of all that outlives a run: mlflow.db, mlartifacts/ and work/.

    It is the checkout, or, where that is one of DVC's copies, the project that was copied.
    """
    here = checkout(Path.cwd())
    parts = here.parts
    for start in range(len(parts) - len(DVC_COPIES)):
        if parts[start : start + len(DVC_COPIES)] == DVC_COPIES:
            return Path(*parts[:start])
    return here


def work_root() -> Path:
    """Return the folder of all resumable states, which no stage declares and git ignores."""
    return project_root() / "work"


#: Folder of a work directory for outputs.
OUTPUTS = "outputs"
#: File of a work directory that says that its run has finished.
NOTE = "finished.json"
#: File of a work directory that holds the key without milestones of the learning rate, and the states of trainings.
KIN, STATES = "kin.json", re.compile(r"(before-)?checkpoint\.safetensors|(snapshot|averages)-[0-9]+\.safetensors")
#: How many unfinished states of other settings, inputs or code stay for each stage instance, to be resumed.
STATES_STORED = 8


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


def trash_of(work: Path) -> Path:
    """Name the folder that a work directory becomes while it is deleted."""
    return work.with_name(f".{work.name}.cleared")


def clear(work: Path) -> None:
    """Delete a work directory whose lock is held, and the rest of an earlier deletion."""
    shutil.rmtree(trash_of(work), ignore_errors=True)
    if work.exists():
        # Renamed first: a kill while files are deleted one by one would leave a partial state.
        work.rename(trash_of(work))
        shutil.rmtree(trash_of(work), ignore_errors=True)


def clear_old_states(work: Path, instance: str) -> None:
    """Delete the oldest unfinished states of a stage instance.

    Finished runs, whose outputs are stored for an engine, and directories in use by other processes stay.
    """
    for other in sorted(states_of(instance, work), key=lambda path: path.stat().st_mtime, reverse=True)[STATES_STORED:]:
        with try_lock(other) as free:
            if free and not (other / NOTE).exists():
                clear(other)


def adopt_states(work: Path, instance: str, kin: str) -> None:
    """Give a new work directory the states of the newest one that differs by milestones of the learning rate alone.

    A training decides which of them lie on its way.
    """
    if (work / KIN).exists():
        return
    others = [one for one in states_of(instance, work) if json_or_none(one / KIN) == kin]
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
    found = besides.parent.iterdir()
    return [path for path in found if path != besides and name.fullmatch(path.name) and path.is_dir()]


def latest_note(instance: str) -> Path:
    """Return the note that holds the key with which a stage instance of this checkout was last started."""
    return checkout(Path.cwd()) / "work" / f".{instance}.latest"
