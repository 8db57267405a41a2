"""One execution of a stage in its work directory, from the lock to the outputs in place."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from filelock import FileLock

from unequal.pipeline.digests import digest_of
from unequal.pipeline.workdirs import (
    NOTE,
    OUTPUTS,
    Finished,
    acquire,
    adopt_states,
    clear,
    ensure_dir,
    read_note,
    release,
    tidy,
)
from unequal.runtime.files import put_into_place, settle, write_facts
from unequal.runtime.place import work_root

#: Environment variables by which Snakemake and DVC tell a stage that they have started it.
SNAKEMAKE, DVC_STAGE = "UNEQUAL_SNAKEMAKE", "DVC_STAGE"


def by_engine() -> bool:
    """Say whether an engine has started this stage, and will record it in dvc.lock."""
    return SNAKEMAKE in os.environ or DVC_STAGE in os.environ


class FinishedBefore(BaseException):
    """Leave the function of a stage that has nothing left to do; no error, and not to be caught as one."""


class Attempt:
    """The work directory of one execution of a stage.

    Args:
        instance: name of the stage and its options, as one of a file.
        key: hash of all that shapes a result; it names the directory.
        kin: the same without milestones of the learning rate.
        publishes: whether its outputs become the stage's; of processes that share a stage, those of the first do.

    Attributes:
        folder: the directory.
        outputs: path in the working directory → place where it is written.

    Raises:
        UserError: a file stands where work directories are to be.
    """

    def __init__(self, instance: str, key: str, kin: str, publishes: bool) -> None:
        self.instance, self.kin = instance, kin
        self.folder = work_root() / f"{instance}-{key[:12]}"
        self.outputs: dict[Path, Path] = {}
        self._lock: FileLock | None = None
        #: Where the other processes write, whose outputs nobody uses.
        self._unused = None if publishes else tempfile.TemporaryDirectory(prefix="unequal-")
        ensure_dir(self.folder.parent)

    def take(self) -> Finished | None:
        """Lock the directory; return the note of the run that has finished in it, whose outputs are published again."""
        self._lock = acquire(self.folder)
        ensure_dir(self.folder)
        finished = read_note(self.folder)
        stored = (
            {}
            if finished is None
            else {self.folder / OUTPUTS / path: known for path, known in finished.outputs.items()}
        )
        # A hard link shares its content with the published file: writing into that one alters both.
        if not all(path.exists() and digest_of(path) == known for path, known in stored.items()):
            finished = None
        if finished is None and (self.folder / NOTE).exists():
            clear(self.folder)
            ensure_dir(self.folder)
        adopt_states(self.folder, self.instance, self.kin)
        tidy(self.folder, self.instance)
        if finished is None:
            shutil.rmtree(self.folder / OUTPUTS, ignore_errors=True)
        for path in finished.outputs if finished is not None else ():
            self.output(Path(path))
        return finished

    def output(self, path: Path) -> Path:
        """Give the place to write an output, a file or a folder to be made."""
        staged = (self.folder / OUTPUTS if self._unused is None else Path(self._unused.name)) / path
        staged.parent.mkdir(parents=True, exist_ok=True)
        self.outputs[path] = staged
        return staged

    def finish(self, **facts: Any) -> None:
        """Have all outputs on the disk, and note that the run has finished, with facts of `Finished`.

        Raises:
            RuntimeError: an output was not written.
        """
        if self._unused is not None:
            return
        for path, staged in self.outputs.items():
            if not staged.exists():
                raise RuntimeError(f"output {path} was announced, but not written")
            path.parent.mkdir(parents=True, exist_ok=True)  # refused before any output moves
            settle(staged)
        outputs = {str(path): digest_of(staged) for path, staged in self.outputs.items()}
        finished = Finished(stage=self.instance, folder=str(Path.cwd()), outputs=outputs, **facts)
        write_facts(self.folder / NOTE, finished.model_dump(mode="json"))

    def publish(self) -> None:
        """Move the outputs into place."""
        for path, staged in self.outputs.items() if self._unused is None else ():
            put_into_place(staged, path)

    def leave(self, finished: bool) -> None:
        """Delete what nobody needs of the work directory, and unlock it."""
        if self._unused is not None:
            self._unused.cleanup()
        if self._lock is None:
            return
        if not finished and not (self.folder / NOTE).exists():
            shutil.rmtree(self.folder / OUTPUTS, ignore_errors=True)
        elif finished and not by_engine():
            clear(self.folder)
        elif finished:
            leave_outputs(self.folder)
        release(self._lock)
        self._lock = None


def leave_outputs(work: Path) -> None:
    """Delete all of a finished run's work directory but its outputs and notes."""
    for path in work.iterdir():
        if path.name not in (NOTE, OUTPUTS):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
