"""Work directories: folders in the project's `work/`, one for each run of a stage, each with a lock."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from filelock import FileLock, Timeout

from unequal.errors import UserError
from unequal.files import files_below, read_json, write_json

#: What lies in a project's folder and in none below it; its clone may have any name.
MARK = ".dvc"
#: `dvc exp run --temp` and `--queue` check the project out into a folder below this one, run the
#: stages there and delete it afterwards.
DVC_COPIES = (".dvc", "tmp", "exps")


def checkout(here: Path) -> Path:
    """The project, or DVC's copy of one, in which a folder lies; that folder itself where it lies in none."""
    return next((folder for folder in (here, *here.parents) if (folder / MARK).is_dir()), here)


def study() -> str | None:
    """The study in whose folder the working directory lies, as its path below `studies`; None: in none."""
    here = Path.cwd()
    return "/".join(here.relative_to(checkout(here)).parts[1:]) or None


def project_root() -> Path:
    """The folder that keeps what outlives a run: mlflow.db, mlartifacts/ and work/.

    It is the checkout, or, where that is one of DVC's copies, the project that was copied.
    """
    here = checkout(Path.cwd())
    parts = here.parts
    for start in range(len(parts) - len(DVC_COPIES)):
        if parts[start : start + len(DVC_COPIES)] == DVC_COPIES:
            return Path(*parts[:start])
    return here


def work_root() -> Path:
    """The folder of all resumable states, which no stage declares and git ignores."""
    return project_root() / "work"


#: File of a work directory that says which run it belongs to.
OWNER = "run.json"
#: Folder of a work directory in which outputs are written.
OUTPUTS = "outputs"
#: File of a work directory that says that its run has finished.
NOTE = "finished.json"
#: So many states of other settings, inputs or code are kept for each stage instance, to be gone on from.
STATES_STORED = 8


def ensure_dir(folder: Path) -> Path:
    """The folder, which is made if it is missing. Raises UserError where something else stands there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise UserError(f"{folder}: a folder of resumable states is to be here; move what stands there away") from None
    return folder


def claim(work: Path, key: str) -> None:
    """Note in a work directory whose it is. Raises UserError where it holds the state of another run."""
    note = work / OWNER
    if not note.exists() and not files_below(work):
        write_json(note, key)
    elif not note.exists() or read_json(note) != key:
        raise UserError(f"{work}: holds the state of another run; delete it to start again")


def lock_of(work: Path) -> FileLock:
    """The lock of a work directory, which the operating system frees with the process that holds it."""
    return FileLock(work.with_name(f"{work.name}.lock"))


def acquire(work: Path) -> FileLock:
    """Take the lock of a work directory.

    Whoever holds it is waited for, as it does what is to be done here: a stage that has outlived its engine, or a
    job that a cluster has told to end, which still saves while its retry begins.
    """
    lock = lock_of(work)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        click.echo(
            f"{work}: waiting for another process that is at work on the same; end it to go on at once", err=True
        )
        lock.acquire(poll_interval=0.2)
    return lock


def release(lock: FileLock) -> None:
    """Let go of a work directory, and delete the file of its lock."""
    # Deleted while held: whoever opened the old file notices that it is gone and makes a new one.
    Path(lock.lock_file).unlink(missing_ok=True)
    lock.release()


@contextmanager
def try_lock(work: Path) -> Iterator[bool]:
    """Hold a work directory's lock as a stage does; gives False, without waiting, where a stage is at work in it."""
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
    """Where a work directory is deleted."""
    return work.with_name(f".{work.name}.cleared")


def clear(work: Path) -> None:
    """Delete a work directory whose lock is held, and what is left of one that was being deleted."""
    shutil.rmtree(trash_of(work), ignore_errors=True)
    if work.exists():
        # Moved at once: of a state that is deleted file by file, a kill would leave a part.
        work.rename(trash_of(work))
        shutil.rmtree(trash_of(work), ignore_errors=True)


def clear_old_states(work: Path, instance: str) -> None:
    """Delete the states that a stage instance was not brought to an end from, but for the latest ones and its own.

    What has finished and is kept for an engine, and what another process is at work on, is left alone.
    """
    name = re.compile(rf"{re.escape(instance)}-[0-9a-f]{{12}}")
    others = [one for one in work.parent.iterdir() if one != work and name.fullmatch(one.name) and one.is_dir()]
    for one in sorted(others, key=lambda path: path.stat().st_mtime, reverse=True)[STATES_STORED:]:
        with try_lock(one) as free:
            if free and not (one / NOTE).exists():
                clear(one)


def latest_note(instance: str) -> Path:
    """The note that says which key a stage instance of this checkout was last begun with."""
    return checkout(Path.cwd()) / "work" / f".{instance}.latest"
