"""Outputs of finished stages, kept in `work/` until the engine that ordered them has recorded them.

An engine that is killed, or lost with its node, has recorded nothing of the stages that it was running. They outlive it
and finish, or had just finished; the next engine deletes their outputs and starts them again. So a finished run leaves
its outputs in its work directory, as hard links, which take no disk while the published files are there. The same run,
started again, puts them into place again; whatever would change a result changes the key of the work directory.

They are deleted when

- DVC, which runs one stage after the other, starts another stage;
- Snakemake comes to its end, or is told to run stages by force;
- the same stage is started in the same folder with other settings, inputs or code.

So there is at most one set of outputs for each stage instance, and of an engine that was not killed DVC's last one.
"""

import os
import platform
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import psutil
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from unequal.files import content_hash, write_json
from unequal.pipeline.project import work_root
from unequal.pipeline.workdirs import NOTE, OUTPUTS, OWNER, clear, held

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


def engine() -> str | None:
    """The run of an engine that has started this process: two of its stages know each other by it."""
    if ENGINE in os.environ or DVC_STAGE not in os.environ:
        return os.environ.get(ENGINE)
    return named(psutil.Process(os.getppid()))


def named(process: psutil.Process) -> str:
    """A process by a name that no other has had."""
    return f"{platform.node()}-{process.pid}-{process.create_time():.2f}"


def keep(work: Path, finished: Finished) -> None:
    """Note that the outputs in a work directory, all of them on the disk, are those of a finished run."""
    write_json(work / NOTE, finished.model_dump(mode="json"))


def kept(work: Path) -> Finished | None:
    """What a finished run has left in a work directory; None where there is none, or where it was altered since.

    A hard link shares its content with the published file: whoever writes into that one alters both.
    """
    found = noted(work)
    if found is None:
        return None
    outputs = {path: work / OUTPUTS / path for path in found.outputs}
    whole = all(path.exists() and content_hash(path) == found.outputs[name] for name, path in outputs.items())
    return found if whole and not recorded_by_dvc(work, outputs) else None


def noted(work: Path) -> Finished | None:
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


def forget(needless: Callable[[Finished], bool], besides: Iterable[Path] = ()) -> None:
    """Delete the kept outputs of the finished runs of which this is true, but for those at work and some besides."""
    for work in {note.parent for note in work_root().glob(f"*/{NOTE}")}.difference(besides):
        with held(work) as free:
            if free and (found := noted(work)) is not None and needless(found):
                clear(work)


def forget_recorded(by: str) -> None:
    """Delete what an engine has recorded, which has come to its end."""
    forget(lambda finished: finished.engine == by)


def forget_folder() -> None:
    """Delete what was finished in the working directory, to have it made again."""
    forget(lambda finished: finished.folder == str(Path.cwd()))
