"""One attempt at a stage: its work directory, from the lock to the outputs in place.

An engine that is killed, or lost with its node, has recorded nothing of the stages that it was running. They outlive it
and finish, or had just finished; the next engine deletes their outputs and starts them again. So a finished run leaves
its outputs in its work directory, as hard links, which take no disk while the published files are there. The same run,
started again, puts them into place again; whatever would change a result changes the key of the work directory.

They are deleted when

- DVC, which runs one stage after the other, starts another stage;
- Snakemake comes to its end, or is asked to run stages by force;
- the same stage is started in the same folder with other settings, inputs or code.

So there is at most one set of outputs for each stage instance, and of an engine that was not killed DVC's last one.
"""

import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import psutil
from filelock import FileLock
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from unequal import processes
from unequal.errors import UserError
from unequal.files import content_hash, files_below, put_into_place, sync, write_bytes, write_json
from unequal.pipeline.workdirs import (
    NOTE,
    OUTPUTS,
    OWNER,
    acquire,
    claim,
    clear,
    clear_old_states,
    ensure_dir,
    latest_note,
    release,
    trash_of,
    try_lock,
    work_root,
)

#: Environment variable by which Snakemake's jobs know of whose run they are part; set in the Snakefile.
ENGINE = "UNEQUAL_ENGINE"
#: DVC names the stage to its command.
DVC_STAGE = "DVC_STAGE"


def inside(path: str) -> str:
    """A path that leads nowhere but below the folder that it starts from. Raises ValueError."""
    if Path(path).is_absolute() or ".." in Path(path).parts or not Path(path).parts:
        raise ValueError(f"{path}: leads out of the folder of the run")
    return path


#: Whoever may write into a shared `work/` shall not choose what is replaced elsewhere.
Inside = Annotated[str, AfterValidator(inside)]


class Finished(BaseModel):
    """What a finished run has come to.

    Attributes:
        instance: name of the stage and its options.
        folder: in which it ran.
        engine: the run of an engine that ordered it, None: a person.
        outputs: path, from that folder → content hash.
        results, parent_results: figures that it has logged, the latter with the whole pipeline.
        parent_artifacts: outputs that are logged with the whole pipeline as well.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    instance: str
    folder: str
    engine: str | None
    outputs: dict[Inside, str]
    results: dict[str, Any]
    parent_results: dict[str, float]
    parent_artifacts: list[Inside]


class FinishedBefore(BaseException):
    """Leaves the function of a stage that has nothing left to do; no error, and not to be caught as one."""


def engine_run() -> str | None:
    """The run of an engine that has started this process: two of its stages know each other by it."""
    if ENGINE in os.environ or DVC_STAGE not in os.environ:
        return os.environ.get(ENGINE)
    return process_name(psutil.Process(os.getppid()))


def process_name(process: psutil.Process) -> str:
    """A process by a name that no other has had."""
    return f"{platform.node()}-{process.pid}-{process.create_time():.2f}"


def write_note(work: Path, finished: Finished) -> None:
    """Note that the outputs in a work directory, all of them on the disk, are those of a finished run."""
    write_json(work / NOTE, finished.model_dump(mode="json"))


def find_finished(work: Path) -> Finished | None:
    """What a finished run has left in a work directory; None where there is none, or where it was altered since.

    A hard link shares its content with the published file: whoever writes into that one alters both.
    """
    found = read_note(work)
    if found is None:
        return None
    outputs = {path: work / OUTPUTS / path for path in found.outputs}
    whole = all(path.exists() and content_hash(path) == found.outputs[name] for name, path in outputs.items())
    return found if whole and not recorded_by_dvc(work, outputs) else None


def read_note(work: Path) -> Finished | None:
    """The note of a finished run, if there is one that can be read."""
    try:
        return Finished.model_validate_json((work / NOTE).read_bytes())
    except (OSError, ValidationError):
        return None


def recorded_by_dvc(work: Path, outputs: dict[str, Path]) -> bool:
    """Whether the DVC that has started this stage knows these outputs as those of the present dependencies.

    It starts the stage nevertheless where it is told to, by `--force`.
    """
    if DVC_STAGE not in os.environ or (work / NOTE).stat().st_mtime > psutil.Process(os.getppid()).create_time():
        return False  # what has finished since it began, it cannot have recorded
    from dvc.exceptions import DvcException
    from dvc.repo import Repo
    from dvc_data.hashfile.build import build

    try:
        with Repo() as repo:
            stage = repo.stage.load_one(name=os.environ[DVC_STAGE].rpartition(":")[2])
            known = {out.def_path: out for out in stage.outs}
            return not any(dep.status() for dep in stage.deps) and all(
                build(known[name].cache, str(path.absolute()), known[name].fs, "md5", dry_run=True)[2].hash_info
                == known[name].hash_info
                for name, path in outputs.items()
            )
    except (DvcException, KeyError):
        return False


def leave_outputs(work: Path) -> None:
    """Delete all of a finished run's work directory but its outputs and who it was."""
    for path in work.iterdir():
        if path.name not in (OWNER, NOTE, OUTPUTS):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def delete_outputs(needless: Callable[[Finished], bool], besides: Iterable[Path] = ()) -> None:
    """Delete the kept outputs of the finished runs of which this is true, but for those at work and some besides."""
    for work in {note.parent for note in work_root().glob(f"*/{NOTE}")}.difference(besides):
        with try_lock(work) as free:
            if free and (found := read_note(work)) is not None and needless(found):
                clear(work)


def delete_recorded(by: str) -> None:
    """Delete what an engine has recorded, which has come to its end."""
    delete_outputs(lambda finished: finished.engine == by)


def delete_of_folder() -> None:
    """Delete what was finished in the working directory, to have it made again."""
    delete_outputs(lambda finished: finished.folder == str(Path.cwd()))


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
        ensure_dir(self.folder.parent)

    def take(self) -> Finished | None:
        """Lock and claim the directory; what an earlier attempt has finished in it, whose outputs are this one's then.

        Raises:
            UserError: it holds another run's state.
        """
        lock = acquire(self.folder)
        try:
            shutil.rmtree(trash_of(self.folder), ignore_errors=True)
            claim(ensure_dir(self.folder), self.key)
        except BaseException:
            release(lock)
            raise
        self._lock = lock
        self._finished = find_finished(self.folder) if processes.can_agree() else None
        if self._finished is None and (self.folder / NOTE).exists():
            clear(self.folder)
            claim(ensure_dir(self.folder), self.key)
        delete_outputs(self._makes_needless, besides=[self.folder])
        clear_old_states(self.folder, self.instance)
        write_bytes(latest_note(self.instance), self.key.encode())
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
        write_note(self.folder, finished)
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
        note = latest_note(self.instance)
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
            latest_note(self.instance).unlink()
        release(self._lock)
        self._lock = None
