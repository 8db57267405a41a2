"""One attempt at a stage: its work directory, from the lock to the outputs in place.

An engine that is killed, or lost with its node, has recorded nothing of the stages that it was running. They outlive it
and finish; the next engine deletes their outputs and starts them again. So a finished run leaves its outputs in its
work directory as hard links, which take no disk while the published files exist. The same run, started again, puts them
into place again; whatever would change a result changes the key of the work directory.

These outputs are deleted when

- DVC, which runs one stage after the other, starts another stage;
- they are recorded in dvc.lock (`unequal.pipeline.recording`), or Snakemake is asked to run stages by force;
- the same stage is started in the same folder with other settings, inputs or code.

So each stage instance has at most one set of outputs; an engine that was not killed leaves at most DVC's last one.
"""

import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Annotated, Any

import psutil
from filelock import FileLock
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from unequal.code import Fingerprint
from unequal.errors import UserError
from unequal.pipeline.workdirs import (
    NOTE,
    OUTPUTS,
    acquire,
    adopt_states,
    clear,
    clear_old_states,
    ensure_dir,
    latest_note,
    release,
    trash_of,
    try_lock,
    work_root,
)
from unequal.runtime.files import content_hash, put_into_place, read_facts, settle, write_bytes, write_facts

#: Environment variable that names the Snakemake run to its jobs; set in the Snakefile.
ENGINE = "UNEQUAL_ENGINE"
#: Environment variable in which DVC names the stage to its command.
DVC_STAGE = "DVC_STAGE"


def inside(path: str) -> str:
    """Return a path that stays below the folder that it starts from. Raises ValueError for any other."""
    if Path(path).is_absolute() or ".." in Path(path).parts or not Path(path).parts:
        raise ValueError(f"{path}: leads out of the folder of the run")
    return path


#: Somebody who can write into a shared `work/` must not choose which files are replaced elsewhere.
Inside = Annotated[str, AfterValidator(inside)]


class Finished(BaseModel):
    """The note of a finished run: its outputs and results.

    Attributes:
        stage: name of the stage's program.
        instance: name of the stage and its options.
        folder: where it ran.
        engine: the run of the engine that started it, None: a person.
        params: content of params.yaml when it was read.
        inputs: path, from that folder → content hash.
        code: fingerprint of the program.
        outputs: path, from that folder → content hash.
        results, parent_results: logged figures, the latter with the whole pipeline.
        parent_artifacts: outputs that are logged with the whole pipeline too.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    stage: str
    instance: str
    folder: str
    engine: str | None
    params: dict[str, Any]
    inputs: dict[str, str]
    code: Fingerprint
    outputs: dict[Inside, str]
    results: dict[str, Any]
    parent_results: dict[str, float]
    parent_artifacts: list[Inside]


class FinishedBefore(BaseException):
    """Leave the function of a stage that has nothing left to do; no error, and not to be caught as one."""


def engine_run() -> str | None:
    """Name the engine run that has started this process; None for a person."""
    if ENGINE in os.environ or DVC_STAGE not in os.environ:
        return os.environ.get(ENGINE)
    return process_name(dvc_process())


def dvc_process() -> psutil.Process:
    """Find the DVC that has started this stage: its parent, or above the shells that run its command."""
    process = psutil.Process(os.getppid())
    while has_stage(process) and (above := process.parent()) is not None:
        process = above
    return process


def has_stage(process: psutil.Process) -> bool:
    """Say whether a process was started for this stage, as DVC itself was not."""
    try:
        return process.environ().get(DVC_STAGE) == os.environ[DVC_STAGE]
    except psutil.Error:
        return False


def process_name(process: psutil.Process) -> str:
    """Name a process so that no other has had this name."""
    return f"{platform.node()}-{process.pid}-{process.create_time():.2f}"


def find_finished(work: Path, engine: str | None) -> Finished | None:
    """Find a finished run to be taken up by an engine's run; None where there is none, or its outputs were altered.

    A hard link shares its content with the published file: writing into that one alters both.
    """
    finished = read_note(work)
    if finished is None:
        return None
    outputs = {path: work / OUTPUTS / path for path in finished.outputs}
    unaltered = all(path.exists() and content_hash(path) == finished.outputs[name] for name, path in outputs.items())
    return finished if unaltered and (finished.engine == engine or not recorded_by_dvc(outputs)) else None


def read_note(work: Path) -> Finished | None:
    """Read the note of a finished run; None where there is none that can be read."""
    try:
        return Finished.model_validate(read_facts(work / NOTE))
    except ValidationError:
        return None


def recorded_by_dvc(outputs: dict[str, Path]) -> bool:
    """Say whether the DVC that has started this stage has recorded these outputs with the present dependencies.

    By `--force`, DVC starts such a stage nevertheless.
    """
    if DVC_STAGE not in os.environ:
        return False
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
    """Delete all of a finished run's work directory but its outputs and notes."""
    for path in work.iterdir():
        if path.name not in (NOTE, OUTPUTS):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def delete_outputs(needless: Callable[[Finished], bool], besides: Collection[Path] = ()) -> None:
    """Delete the stored outputs of finished runs for which `needless` holds, except of running stages and `besides`."""
    for work, finished in finished_runs():
        if work not in besides and needless(finished):
            clear_finished(work)


def finished_runs() -> Iterator[tuple[Path, Finished]]:
    """Yield the work directories of runs that have finished, with their notes."""
    for note in sorted(work_root().glob(f"*/{NOTE}")):
        if (found := read_note(note.parent)) is not None:
            yield note.parent, found


def clear_finished(work: Path) -> None:
    """Delete the stored outputs of a finished run, unless the stage is being started again."""
    with try_lock(work) as free:
        if free:
            clear(work)


def delete_of_folder() -> None:
    """Delete the stored outputs of the working directory, so that they are made again."""
    delete_outputs(lambda finished: finished.folder == str(Path.cwd()))


class Attempt:
    """The work directory of one execution of a stage.

    Args:
        instance: name of the stage and its options, as one of a file.
        key: hash of all that shapes a result; it names the directory.
        engine: the run of the engine that started it, None: a person.
        publishes: whether its outputs become the stage's; of processes that share a stage, those of the first do.
        kin: the key without milestones of the learning rate.

    Attributes:
        folder: the directory.
        outputs: path in the working directory → place where it is written.

    Raises:
        UserError: a file stands where work directories are to be.
    """

    def __init__(self, instance: str, key: str, engine: str | None, publishes: bool, kin: str) -> None:
        self.instance, self.key, self.engine, self.kin = instance, key, engine, kin
        self.folder = work_root() / f"{instance}-{key[:12]}"
        self.outputs: dict[Path, Path] = {}
        self._finished: Finished | None = None
        self._lock: FileLock | None = None
        #: Where the other processes write, whose outputs nobody uses.
        self._unused = None if publishes else tempfile.TemporaryDirectory(prefix="unequal-")
        ensure_dir(self.folder.parent)

    def take(self) -> Finished | None:
        """Lock the directory; return the earlier attempt that has finished in it, whose outputs are reused."""
        self._lock = acquire(self.folder)
        shutil.rmtree(trash_of(self.folder), ignore_errors=True)
        ensure_dir(self.folder)
        self._finished = find_finished(self.folder, self.engine)
        if self._finished is None and (self.folder / NOTE).exists():
            clear(self.folder)
            ensure_dir(self.folder)
        adopt_states(self.folder, self.instance, self.kin)
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
        """Say whether the start of this run shows that nobody needs the stored outputs of a finished run."""
        accepted = DVC_STAGE in os.environ and finished.engine == self.engine
        return accepted or (finished.instance, finished.folder) == (self.instance, str(Path.cwd()))

    def output(self, path: Path) -> Path:
        """Give the place to write an output, a file or a folder to be made."""
        staged = (self.folder / OUTPUTS if self._unused is None else Path(self._unused.name)) / path
        staged.parent.mkdir(parents=True, exist_ok=True)
        self.outputs[path] = staged
        return staged

    def publish(self, **facts: Any) -> None:
        """Note that the run has finished, with facts of `Finished`, then move the outputs into place.

        Raises:
            UserError: the stage was started with another key since: a run may outlive its engine.
        """
        if self._unused is not None or not self.outputs:
            return
        if not self._is_latest():
            raise UserError(
                "started again meanwhile with other settings, inputs or code; the outputs of this run are not published"
            )
        for path in self.outputs:  # a folder that cannot be made is refused before any output moves
            path.parent.mkdir(parents=True, exist_ok=True)
        outputs = self._written()
        finished = Finished(
            instance=self.instance, folder=str(Path.cwd()), engine=self.engine, outputs=outputs, **facts
        )
        write_facts(self.folder / NOTE, finished.model_dump(mode="json"))
        for path, staged in self.outputs.items():
            put_into_place(staged, path)

    def _written(self) -> dict[str, str]:
        """Have all outputs on the disk; return their hashes by path. Raises RuntimeError where one was not written."""
        for path, staged in self.outputs.items():
            if not staged.exists():
                raise RuntimeError(f"output {path} was announced, but not written")
            settle(staged)
        known = {} if self._finished is None else self._finished.outputs
        return {str(path): known.get(str(path)) or content_hash(staged) for path, staged in self.outputs.items()}

    def _is_latest(self) -> bool:
        """Say whether the stage was last started with this key."""
        note = latest_note(self.instance)
        return note.exists() and note.read_text(encoding="utf-8") == self.key

    def leave(self, finished: bool) -> None:
        """Delete what nobody needs of the work directory, and unlock it."""
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
