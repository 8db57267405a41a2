"""The harness of a stage program: settings and inputs in, outputs that appear whole, a run that is logged.

    @stage(Settings)
    def main(run: Run, settings: Settings, recipe: str) -> None:
        ...

makes `main` a command-line program with the option `--recipe`. Its outputs are written into a work
directory and moved into place when the function has returned; whatever stops it before leaves no
output behind, only the resumable state. The key of a work directory holds all that shapes a
result, so that a changed setting or input never resumes a stale state.
"""

import errno
import os
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from inspect import Parameter, signature
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, get_args

import click
from filelock import FileLock, Timeout

from unequal.errors import UserError
from unequal.files import content_hash, files_below, move_into_place, read_json, require, settings_hash, write_json
from unequal.pipeline.fingerprint import Fingerprint, fingerprint, refuse_other_code
from unequal.pipeline.launching import follow_launcher, launch, leave_reason, same_command, wanted
from unequal.pipeline.memory import memory_refusal
from unequal.pipeline.project import study, work_root
from unequal.pipeline.store import Execution
from unequal.pipeline.tracker import Tracker
from unequal.settings.runtime import Runtime
from unequal.settings.strict import PARAMS, StageSettings, read_yaml
from unequal.workspace import processes

if TYPE_CHECKING:
    import torch

#: Raise it when the meaning of resumable states changes: none of the older ones is taken up then.
FORMAT = 1
#: File of a work directory that says which run it belongs to.
OWNER = "run.json"
#: How long a run waits for another one in its folder: a cluster may start a retry while the job that it has
#: ended still saves (Slurm grants that `KillWait`, by default 30 s).
PATIENCE_SECONDS = 60.0
#: Compute capability of the first GPUs that have TF32 (Ampere).
TF32_SINCE = (8, 0)
#: Where a run computes, and what it computes float32 in.
CPU_TAGS = {"device": "cpu", "fp32": "ieee"}
#: What a disk may refuse through no fault of the program.
STORAGE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES)


class RuntimeSettings(StageSettings):
    """The section that the harness reads for every stage; it shapes no result, so no stage declares it."""

    runtime: Runtime


class Run:
    """One execution of a stage: its settings, code, files, device and log."""

    def __init__(
        self,
        name: str,
        settings: StageSettings,
        options: Mapping[str, str | int],
        runtime: Runtime,
        code: Fingerprint,
    ) -> None:
        self.name = name
        self.code = code
        self.settings: Any = settings
        self.options = dict(options)
        self.runtime = runtime
        #: Of the processes that share a stage, one locks, logs and publishes.
        self.leads = processes.rank() == 0
        #: The outputs of the others are of no use to anybody.
        self._unused = None if self.leads else tempfile.TemporaryDirectory(prefix="unequal-")
        self._inputs: dict[str, str] = {}
        self._outputs: dict[Path, Path] = {}
        self._parent_artifacts: list[Path] = []
        self._key_is_fixed = False
        self._lock: FileLock | None = None
        execution = Execution(name, self.options, settings.model_dump(mode="json"), read_yaml(PARAMS))
        self._tracker = Tracker(runtime.tracking, execution, active=self.leads)
        self._tracker.tags(CPU_TAGS)  # until the stage asks for another

    def input(self, path: str | Path) -> Path:
        """A file or folder that the stage reads; its content becomes part of the work directory's key.

        Raises:
            UserError: it is missing.
            RuntimeError: the key is fixed already; a stage names its inputs before its outputs.
        """
        if str(path) not in self._inputs:
            if self._key_is_fixed:
                raise RuntimeError(f"input {path} comes after the first use of work or output")
            self._inputs[str(path)] = content_hash(require(Path(path)))
            self._tracker.input(Path(path))
        return Path(path)

    @cached_property
    def work(self) -> Path:
        """Folder of the resumable state; the same for the same stage, options, settings and inputs.

        Raises UserError where another process is at work in it, or something else stands in its place.
        """
        self._key_is_fixed = True
        settings = self.settings.model_dump(mode="json")
        shaping = (FORMAT, self.name, self.options, settings, list(self._inputs.items()), self.code)
        key, where = settings_hash(shaping), () if study() is None else (study(),)
        name = (*where, self.name, *self.options.values(), key[:12])
        # One folder a run: a variant's name may be a path.
        path = work_root() / "-".join(map(str, name)).replace("/", "_")
        made(path.parent)
        if self.leads:
            lock = locked(path.with_name(path.name + ".lock"))
            shutil.rmtree(cleared(path), ignore_errors=True)
            shutil.rmtree(path / "outputs", ignore_errors=True)
            claim(made(path), key)
            self._lock = lock
        elif processes.folder() is not None:
            processes.wait_until(lambda: (path / OWNER).exists())
        return made(path)

    def output(self, path: str | Path) -> Path:
        """Where to write an output (a file, or a folder to be made); it appears at `path` when the stage ends well."""
        outputs = self.work / "outputs"
        staged = (outputs if self._unused is None else Path(self._unused.name)) / path
        staged.parent.mkdir(parents=True, exist_ok=True)
        self._outputs[Path(path)] = staged
        return staged

    @cached_property
    def device(self) -> "torch.device":
        """The device of runtime.device. Raises UserError where CUDA is asked for and there is none."""
        import torch

        wanted, has_cuda = self.runtime.device, torch.cuda.is_available()
        if wanted == "cuda" and not has_cuda:
            raise UserError(f"{PARAMS}: runtime.device: 'cuda': PyTorch finds no CUDA device; allowed here: auto, cpu")
        use_cuda = has_cuda and wanted != "cpu"
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if use_cuda else torch.device("cpu")
        if use_cuda:
            torch.cuda.set_device(device)  # for libraries that say `cuda` without a number: it would be the first one's
        tags = {"device": torch.cuda.get_device_name(device), "fp32": float32_on_gpu(device)} if use_cuda else CPU_TAGS
        self._tracker.tags(tags)
        return device

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Add a point to curves."""
        self._tracker.log(metrics, step)

    def metrics(
        self, path: str | Path, content: Mapping[str, Any], headline: Mapping[str, float] | None = None
    ) -> None:
        """Write figures as a JSON output; its numbers are logged, and the headline's with the whole pipeline."""
        write_json(self.output(path), content)
        self._tracker.results(content)
        self.parent_metrics(headline or {})

    def table(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Log rows as a table, with the columns of the first one."""
        self._tracker.table(name, rows)

    def parent_metrics(self, metrics: Mapping[str, float]) -> None:
        """Log figures with the whole pipeline, where its variants are compared."""
        self._tracker.parent_results(metrics)

    def parent_artifacts(self, paths: Sequence[str | Path]) -> None:
        """Log outputs of this stage with the whole pipeline as well, once they are in place."""
        self._parent_artifacts += map(Path, paths)

    def complete(self) -> None:
        """Move the outputs into place, end the log, clear the work directory.

        Until the last moment a run that is killed leaves its state: engines delete the outputs of one that failed.

        Raises:
            UserError: the engine has been told of other code meanwhile, and would take the outputs for its own.
        """
        refuse_other_code(self.name, self.code)
        processes.wait_for_others()
        if self.leads:
            for path, staged in self._outputs.items():
                if not staged.exists():
                    raise RuntimeError(f"output {path} was announced, but not written")
            for path, staged in self._outputs.items():
                move_into_place(staged, path)
        self._tracker.artifacts(list(self._outputs))
        self._tracker.parent_artifacts(self._parent_artifacts)
        self._tracker.finish("FINISHED")
        self._leave_work(finished=True)

    def abandon(self, status: str) -> None:
        """Drop unfinished outputs, keep the resumable state, end the log with `FAILED` or `KILLED`."""
        self._leave_work(finished=False)
        self._tracker.finish(status)

    def _leave_work(self, finished: bool) -> None:
        """Delete the work directory or only its outputs, and let go of it."""
        if self._unused is not None:
            self._unused.cleanup()
        if self._lock is None:
            return
        if finished:
            # Moved at once: of a state that is deleted file by file, a kill would leave a part.
            self.work.rename(cleared(self.work))
        shutil.rmtree(cleared(self.work) if finished else self.work / "outputs", ignore_errors=True)
        # Deleted while held: whoever opened the old file notices that it is gone and makes a new one.
        Path(self._lock.lock_file).unlink(missing_ok=True)
        self._lock.release()
        self._lock = None


def float32_on_gpu(device: "torch.device") -> str:
    """What PyTorch computes float32 in: TF32 (10 bits of mantissa) where its switches allow it and the GPU has it."""
    import torch

    has_tf32 = torch.cuda.get_device_capability(device) >= TF32_SINCE
    allowed = {"convolutions": torch.backends.cudnn.allow_tf32, "products": torch.backends.cuda.matmul.allow_tf32}
    return ", ".join(f"{what} {'tf32' if has_tf32 and may else 'ieee'}" for what, may in allowed.items())


def made(folder: Path) -> Path:
    """The folder, which is made if it is missing. Raises UserError where something else stands there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise UserError(f"{folder}: a folder of resumable states is to be here; move what stands there away") from None
    return folder


def cleared(work: Path) -> Path:
    """Where a work directory is deleted."""
    return work.with_name(f".{work.name}.cleared")


def claim(work: Path, key: str) -> None:
    """Note in a work directory whose it is. Raises UserError where it holds the state of another run."""
    note = work / OWNER
    if not note.exists() and not files_below(work):
        write_json(note, key)
    elif not note.exists() or read_json(note) != key:
        raise UserError(f"{work}: holds the state of another run; delete it to start again")


class StageCommand(click.Command):
    """A stage as a command-line program.

    Attributes:
        program: the file that holds the function.
        stage_name: its name.
        settings: the keys of params.yaml that the stage reads.
        shared: whether several processes can share the work.
    """

    def __init__(self, function: Callable[..., None], settings: type[StageSettings], shared: bool = False) -> None:
        self.function = function
        self.settings = settings
        self.shared = shared
        self.program = Path(function.__code__.co_filename).resolve()
        self.stage_name = self.program.stem
        options = list(signature(function, eval_str=True).parameters.values())[2:]
        super().__init__(self.stage_name, callback=self.run, params=list(map(option, options)), help=function.__doc__)

    def run(self, **options: str | int) -> None:
        """Execute the stage; ends the process with a status where it does not end well."""
        with reported(self.stage_name):
            settings = self.settings.read(PARAMS, **options)
            runtime = RuntimeSettings.read(PARAMS).runtime
            if self.shared and (count := wanted(runtime)) > 1:
                sys.exit(launch(count, same_command()))
            code = fingerprint(self.program)
            refuse_other_code(self.stage_name, code)
            run = Run(self.stage_name, settings, options, runtime, code)
            try:
                self.function(run, settings, **options)
                run.complete()
            except BaseException as error:
                run.abandon("FAILED" if isinstance(error, Exception) else "KILLED")
                if (refusal := memory_refusal(error, settings, self.settings.keys(**options))) is not None:
                    raise UserError(refusal) from None
                raise


def stage(settings: type[StageSettings], shared: bool = False) -> Callable[[Callable[..., None]], StageCommand]:
    """Turn `main(run, settings, **options)` into a program; the options are its further parameters, str or int.

    `shared` says that several processes, started by the program itself, can share the work: `runtime.processes`.
    """
    return lambda function: StageCommand(function, settings, shared)


def option(parameter: Parameter) -> click.Option:
    """The command-line option of a parameter: str, int, or a Literal of words; required where it has no default."""
    choices, name = get_args(parameter.annotation), f"--{parameter.name.replace('_', '-')}"
    kind = click.Choice(choices) if choices else parameter.annotation
    if parameter.default is Parameter.empty:
        return click.Option([name], type=kind, required=True)
    return click.Option([name], type=kind, default=parameter.default, show_default=True)


def locked(path: Path) -> FileLock:
    """Take a lock that the operating system frees with the process. Raises UserError where it stays held."""
    lock = FileLock(path)
    try:
        lock.acquire(timeout=PATIENCE_SECONDS)
    except Timeout:
        raise UserError(
            f"{path.with_suffix('')}: another process is at work on the same, for {PATIENCE_SECONDS:g} s and more; "
            "wait for it or end it"
        ) from None
    return lock


@contextmanager
def reported(name: str) -> Iterator[None]:
    """Say what a user can mend in one line and leave with status 1; interruptions leave quietly."""
    follow_launcher()
    stops = processes.stop_signals()[0]
    previous = signal.signal(stops, leave)
    try:
        yield
    except UserError as error:
        fail(name, str(error))
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except Exception as error:
        refusal = storage_refusal(error)
        if refusal is None:
            if leave_reason(traceback.format_exc()):
                sys.exit(1)
            raise
        fail(name, refusal)
    finally:
        signal.signal(stops, previous)


def leave(number: int, _: FrameType | None) -> NoReturn:
    """End as SIGTERM does; a second one shall not break off what is done on the way out."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + signal.SIGTERM)


def fail(name: str, message: str) -> None:
    """One line on stderr, status 1."""
    line = f"{name}: {' '.join(message.split())}"
    if not leave_reason(line):
        click.echo(line, err=True)
    sys.exit(1)


def storage_refusal(error: Exception) -> str | None:
    """Which path the disk refused and why, or None where the error says something else."""
    if isinstance(error, OSError) and error.errno in STORAGE_ERRORS:
        return f"{error.filename or Path.cwd()}: {os.strerror(error.errno)}"
    # Libraries that write files by themselves wrap a full disk in errors of their own, and NumPy names no cause.
    full = os.strerror(errno.ENOSPC)
    if full in str(error) or shutil.disk_usage(Path.cwd()).free == 0:
        return f"{Path.cwd()}: {full}"
    return None
