"""One attempt at a stage: its work directory, from the lock to the outputs in place.

Outputs are written into the work directory. Engines delete those of a run that is killed before its end, or that they
are killed with; so they are kept there besides, until an engine has recorded them, and the state is kept until then.
"""

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock

from unequal.errors import UserError
from unequal.files import content_hash, files_below, put_into_place, sync, write_bytes
from unequal.pipeline import processes
from unequal.pipeline.finished import DVC_STAGE, Finished, forget, keep, kept, leave_outputs
from unequal.pipeline.project import work_root
from unequal.pipeline.workdirs import (
    NOTE,
    OUTPUTS,
    claim,
    clear,
    clear_given_up,
    cleared,
    latest,
    locked,
    made,
    unlocked,
)


class Attempt:
    """The work directory of one execution of a stage.

    Args:
        instance: name of the stage and its options, as one of a file.
        key: of all that shapes a result; it names the directory.
        engine: the run of an engine that ordered it, None: a person.
        publishes: whether its outputs are the stage's; of processes that share one, the first one's are.

    Attributes:
        folder: the directory.
        outputs: path in the working directory → where it is written.

    Raises:
        UserError: something else stands where work directories are.
    """

    def __init__(self, instance: str, key: str, engine: str | None, publishes: bool) -> None:
        self.instance, self.key, self.engine = instance, key, engine
        self.folder = work_root() / f"{instance}-{key[:12]}"
        self.outputs: dict[Path, Path] = {}
        self._finished: Finished | None = None
        self._lock: FileLock | None = None
        #: What other processes write is of no use to anybody.
        self._unused = None if publishes else tempfile.TemporaryDirectory(prefix="unequal-")
        made(self.folder.parent)

    def take(self) -> Finished | None:
        """Lock and claim the directory; what an earlier attempt has finished in it, whose outputs are this one's then.

        Raises:
            UserError: it holds another run's state.
        """
        lock = locked(self.folder)
        try:
            shutil.rmtree(cleared(self.folder), ignore_errors=True)
            claim(made(self.folder), self.key)
        except BaseException:
            unlocked(lock)
            raise
        self._lock = lock
        self._finished = kept(self.folder) if processes.can_agree() else None
        if self._finished is None and (self.folder / NOTE).exists():
            clear(self.folder)
            claim(made(self.folder), self.key)
        forget(self._makes_needless, besides=[self.folder])
        clear_given_up(self.folder, self.instance)
        write_bytes(latest(self.instance), self.key.encode())
        if self._finished is None:
            shutil.rmtree(self.folder / OUTPUTS, ignore_errors=True)
            return None
        for path in self._finished.outputs:
            self.output(Path(path))
        return self._finished

    def _makes_needless(self, finished: Finished) -> bool:
        """Whether the start of this run shows that nobody will ask for another one's outputs again."""
        accepted = DVC_STAGE in os.environ and finished.engine == self.engine
        return accepted or (finished.instance, finished.folder) == (self.instance, str(Path.cwd()))

    def output(self, path: Path) -> Path:
        """Where to write an output, a file or a folder to be made."""
        staged = (self.folder / OUTPUTS if self._unused is None else Path(self._unused.name)) / path
        staged.parent.mkdir(parents=True, exist_ok=True)
        self.outputs[path] = staged
        return staged

    def publish(
        self, results: Mapping[str, Any], parent_results: Mapping[str, float], parent_artifacts: Sequence[str]
    ) -> None:
        """Move the outputs into place, once it is noted that the run has finished.

        Args:
            results, parent_results, parent_artifacts: what the run has logged, for whoever finds its outputs.

        Raises:
            UserError: the stage was begun with another key since: a run may outlive its engine.
        """
        if self._unused is not None or not self.outputs:
            return
        if not self._is_latest():
            raise UserError(
                "begun again meanwhile with other settings, inputs or code; the outputs of this run are not published"
            )
        for path in self.outputs:  # one that cannot be there shall be told of before another is
            path.parent.mkdir(parents=True, exist_ok=True)
        hashes = self._written()
        finished = Finished(
            instance=self.instance,
            folder=str(Path.cwd()),
            engine=self.engine,
            outputs=hashes,
            results=dict(results),
            parent_results=dict(parent_results),
            parent_artifacts=list(parent_artifacts),
        )
        keep(self.folder, finished)
        for path, staged in self.outputs.items():
            put_into_place(staged, path)

    def _written(self) -> dict[str, str]:
        """Hashes of all outputs, by path; they are on the disk. Raises RuntimeError where one was not written."""
        for path, staged in self.outputs.items():
            if not staged.exists():
                raise RuntimeError(f"output {path} was announced, but not written")
            for file in files_below(staged):
                sync(file)
        known = {} if self._finished is None else self._finished.outputs
        return {str(path): known.get(str(path)) or content_hash(staged) for path, staged in self.outputs.items()}

    def _is_latest(self) -> bool:
        """Whether the stage was last begun with this key."""
        note = latest(self.instance)
        return note.exists() and note.read_text(encoding="utf-8") == self.key

    def leave(self, finished: bool) -> None:
        """Delete of the work directory what nobody will ask for, and let go of it."""
        if self._unused is not None:
            self._unused.cleanup()
        if self._lock is None:
            return
        if not finished:
            if not (self.folder / NOTE).exists():
                shutil.rmtree(self.folder / OUTPUTS, ignore_errors=True)
        elif self.engine is None:
            clear(self.folder)
        else:
            leave_outputs(self.folder)
        if self._is_latest():
            latest(self.instance).unlink()
        unlocked(self._lock)
        self._lock = None
