"""The harness of a stage program: settings and inputs in, outputs that appear whole, a run that is logged.

    @stage(Settings)
    def main(run: Run, settings: Settings, recipe: str) -> None:
        ...

makes `main`, the last of its file, a command-line program with the option `--recipe`. It writes its outputs into a work
directory, from where they move into place when the function has returned. A stop before that leaves no output, only the
resumable state. What was read is compared again then: what is recorded is what ran.
"""

import dataclasses
import gc
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, get_args

import click
import numpy as np
import torch

from unequal.errors import UserError, plain, say
from unequal.pipeline.attempt import Attempt, FinishedBefore, by_engine
from unequal.pipeline.digests import check_made, input_digest, recorded_outputs, state
from unequal.pipeline.fingerprint import started_with
from unequal.pipeline.gpus import LENT, gpus_of_stage, lease
from unequal.pipeline.launcher import launch, num_processes
from unequal.pipeline.logger import MODEL, Execution
from unequal.pipeline.naming import leaves
from unequal.pipeline.program import errors_reported, memory_refusal, stop_requested
from unequal.pipeline.sources import current_source, refresh_source, source_file, value_at, without_paths
from unequal.pipeline.tracker import Tracker
from unequal.pipeline.workdirs import ensure_dir
from unequal.runtime import processes
from unequal.runtime.devices import computed_on
from unequal.runtime.files import json_or_none, require, settings_hash, write_json
from unequal.runtime.processes import threads
from unequal.settings.strict import PARAMS, StageSettings, read_yaml
from unequal.settings.training import Runtime

if TYPE_CHECKING:
    from unequal.settings.evaluation import Sampling

#: Setting by which a training may differ from the one whose state it resumes from.
MILESTONES = "lr_milestones"
#: Characters of a setting's value in a message.
SHOWN = 60


class RuntimeSettings(StageSettings):
    """The section that the harness reads for every stage; it changes results by rounding alone."""

    runtime: Runtime


class Run:
    """One execution of a stage: its settings, code, files, device and log.

    Args:
        name: of its program.
        settings: those that it reads.
        options: of its command line.
        runtime: settings that shape no result.
        params: content of params.yaml.
        keys: keys of the settings that it reads.
        code: its code file, an input as others.
    """

    def __init__(
        self,
        name: str,
        settings: StageSettings,
        options: Mapping[str, str | int],
        runtime: Runtime,
        params: dict[str, Any],
        keys: Sequence[str] = (),
        code: Path | None = None,
    ) -> None:
        self.name = name
        self.options = dict(options)
        self.runtime = runtime
        #: Whether this process, of those that share the stage, locks, logs and publishes.
        self.leads = processes.rank() == 0
        self._params = params
        self._declared = {key: value_at(params, *key.split(".")) for key in keys}
        self._inputs: dict[str, str] = {}
        self._states: dict[str, str] = {}
        self._sources: list[str] = []
        self._results: dict[str, Any] = {}
        self._parent_results: dict[str, float] = {}
        self._parent_artifacts: list[Path] = []
        self._attempt: Attempt | None = None
        self._settings = without_paths(settings.model_dump(mode="json"), params)
        self._execution = Execution(name, self.options, self._settings, without_paths(params, params), params)
        self._tracker = Tracker(runtime.tracking, self._execution, active=self.leads)
        if code is not None:
            self._read(code)

    @cached_property
    def _made(self) -> dict[Path, tuple[str, str]]:
        """What engines have recorded of inputs."""
        return recorded_outputs() if by_engine() and self.leads else {}

    def input(self, path: str | Path) -> Path:
        """Name a file or folder that the stage reads; its content becomes part of the work directory's key.

        Raises:
            UserError: it is missing, or not what the stage that made it has recorded.
            RuntimeError: the key is fixed already; a stage names its inputs before its outputs.
        """
        if str(path) not in self._inputs:
            if self._attempt is not None:
                raise RuntimeError(f"input {path} comes after the first use of work or output")
            self._read(require(Path(path)))
            check_made(Path(path), self._made, self._inputs[str(path)])
            self._tracker.input(Path(path))
        return Path(path)

    def _read(self, path: Path) -> None:
        """Note the content of an input."""
        self._states[str(path)], self._inputs[str(path)] = state(path), input_digest(path)

    def source(self, name: str) -> None:
        """Name a source outside the project that the stage reads; its file in `artifacts/sources` becomes an input."""
        processes.agreed(lambda: refresh_source(name) is None, name.replace("/", "-"))
        self.input(source_file(name))
        self._sources.append(name)

    @property
    def instance(self) -> str:
        """Name of the stage and its options as a file name; a variant's name may be a path."""
        return "-".join(map(str, (self.name, *self.options.values()))).replace("/", "_")

    @property
    def work(self) -> Path:
        """Folder of the resumable state; the same for the same stage, options, settings, inputs and code.

        Raises:
            UserError: something else stands in its place.
            FinishedBefore: an earlier attempt has finished, and its outputs are there.
        """
        return ensure_dir(self._begun().folder)

    def _begun(self) -> Attempt:
        """Begin the attempt at the first use of its work directory."""
        if self._attempt is None:
            self._attempt = Attempt(self.instance, self._key(), self._key(MILESTONES), self.leads)
            if processes.agreed(self._finds_outputs):
                raise FinishedBefore
        return self._attempt

    def _key(self, but_for: str | None = None) -> str:
        """Hash all that shapes a result, but for settings of one name."""
        settings = without(self._settings, but_for)
        return settings_hash((self.name, self.options, settings, list(self._inputs.items())))

    def _finds_outputs(self) -> bool:
        """Lock the work directory; say whether an earlier attempt has finished, whose outputs are reused."""
        assert self._attempt is not None
        finished = self._attempt.take()
        if finished is None:
            return False
        say(f"{self.name}: finished before; its outputs are taken from {self._attempt.folder}", err=True)
        self._tracker.params({"republished": True})
        self._results, self._parent_results = finished.results, finished.parent_results
        self._parent_artifacts = list(map(Path, finished.parent_artifacts))
        self._tracker.results(self._results)
        self._tracker.log(self._parent_results, 0, parent=True)
        return True

    def output(self, path: str | Path) -> Path:
        """Give the place to write an output, a file or a folder to be made; it appears at `path` after a success."""
        return self._begun().output(Path(path))

    @cached_property
    def device(self) -> torch.device:
        """The device of runtime.device. Raises UserError where CUDA is asked for and there is none."""
        chosen, has_cuda = self.runtime.device, torch.cuda.is_available()
        if chosen == "cuda" and not has_cuda:
            raise UserError(f"{PARAMS}: runtime.device: 'cuda': PyTorch finds no CUDA device; allowed here: auto, cpu")
        use_cuda = has_cuda and chosen != "cpu"
        device = torch.device("cuda", processes.rank()) if use_cuda else torch.device("cpu")
        torch.backends.cudnn.benchmark = self.runtime.cudnn_benchmark
        if use_cuda:
            torch.cuda.set_device(device)  # for libraries that say `cuda` without a number: it would be the first one's
        self._tracker.params(computed_on(device))
        return device

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Add a point to curves."""
        self._tracker.log(metrics, step)

    def picture(self, name: str, image: np.ndarray, step: int) -> None:
        """Add an image, uint8 [C, H, W], to those of a name over the steps."""
        self._tracker.picture(name, image, step)

    def metrics(
        self, path: str | Path, content: Mapping[str, Any], headline: Mapping[str, float] | None = None
    ) -> None:
        """Write figures as a JSON output and log its numbers; the headline is logged with the whole pipeline too."""
        write_json(self.output(path), content)
        self._results |= content
        self._tracker.results(content)
        self.parent_metrics(headline or {})

    def log_model(self, name: str, figures: Mapping[str, float], curve: Iterable[tuple[int, float]]) -> None:
        """Log a scored model as a run of its own, next to the pipeline's: its figures, and its loss over the images."""
        document = dataclasses.replace(self._execution, stage=MODEL, options={"name": name}, settings={})
        tracker = Tracker(self.runtime.tracking, document, active=self.leads)
        tracker.log(figures, 0)
        for images, loss in curve:
            tracker.log({"training_loss": loss}, images)
        tracker.finish("FINISHED")

    def register(self, name: str, model: Path, timesteps: Sequence[int], sampling: "Sampling") -> None:
        """Register a model that this stage has read, where the settings say so."""
        if self.runtime.tracking.register_models:
            self._tracker.register(name, model, timesteps, sampling)

    def parent_metrics(self, metrics: Mapping[str, float]) -> None:
        """Log figures with the whole pipeline's run, where configurations are compared."""
        self._parent_results |= metrics
        self._tracker.log(metrics, 0, parent=True)

    def parent_artifacts(self, paths: Sequence[str | Path]) -> None:
        """Log outputs of this stage with the whole pipeline's run too, once they are in place."""
        self._parent_artifacts += map(Path, paths)

    def complete(self) -> None:
        """Move the outputs into place, end the log, clear the work directory.

        Raises:
            UserError: settings or inputs have changed since they were read: outputs would be recorded under others.
        """
        processes.wait_for_others()
        outputs: list[Path] = []
        if self._attempt is not None:
            outputs = list(self._attempt.outputs)
            self._attempt.finish(
                params=self._params,
                inputs=self._inputs,
                results=self._results,
                parent_results=self._parent_results,
                parent_artifacts=list(map(str, self._parent_artifacts)),
            )
            if self.leads and (changes := self._changes()):
                raise UserError(
                    f"{'; '.join(changes)}: changed since this stage read it; nothing is published, its work stays in "
                    f"{self._attempt.folder}; start the engine again"
                )
            self._attempt.publish()
        self._tracker.artifacts(outputs)
        self._tracker.artifacts(self._parent_artifacts, parent=True)
        self._tracker.finish("FINISHED")
        if self._attempt is not None:
            self._attempt.leave(finished=True)

    def _changes(self) -> list[str]:
        """Name the declared settings, sources and inputs that are not as they were read."""
        before, now = {}, {}
        document = read_yaml(PARAMS)
        for key, value in self._declared.items():
            before |= dict(leaves({key: value}))
            now |= dict(leaves({key: value_at(document, *key.split("."))}))
        changed = [key for key in {**before, **now} if before.get(key) != now.get(key)]
        lines = [f"{PARAMS}: {key}: {shown(before.get(key))} → {shown(now.get(key))}" for key in changed]
        lines += [
            f"{source_file(name)}" for name in self._sources if json_or_none(source_file(name)) != current_source(name)
        ]
        return lines + [
            path
            for path, known in self._inputs.items()
            if not Path(path).exists()
            or (state(Path(path)) != self._states[path] and input_digest(Path(path)) != known)
        ]

    def abandon(self, status: str) -> None:
        """Delete unfinished outputs, leave the resumable state, end the log with `FAILED` or `KILLED`."""
        if self._attempt is not None:
            self._attempt.leave(finished=False)
        self._tracker.finish(status)


def shown(value: Any) -> str:
    """Show a setting in a message."""
    return "missing" if value is None else plain(repr(value))[:SHOWN]


def without(settings: Any, name: str | None) -> Any:
    """Return settings without those of a name, wherever they stand."""
    if isinstance(settings, list):
        return [without(item, name) for item in settings]
    if isinstance(settings, dict):
        return {key: without(value, name) for key, value in settings.items() if key != name}
    return settings


class StageCommand(click.Command):
    """A stage as a command-line program.

    Attributes:
        module: its name when it was defined; `__main__` where Python was started with it.
        program: its file.
        stage_name: the file's name.
        settings: the keys of params.yaml that the stage reads.
        shared: whether several processes can share the work.
    """

    def __init__(
        self, function: Callable[..., None], settings: type[StageSettings], module: str, shared: bool = False
    ) -> None:
        self.function, self.settings, self.module, self.shared = function, settings, module, shared
        self.program = Path(str(sys.modules[module].__file__)).resolve()
        self.stage_name = self.program.stem
        options = list(signature(function, eval_str=True).parameters.values())[2:]
        super().__init__(self.stage_name, callback=self.run, params=list(map(option, options)), help=function.__doc__)

    def run_if_main(self) -> Self:
        """Run the program where Python was started with it."""
        if self.module == "__main__":
            self()
        return self

    def run(self, **options: str | int) -> None:
        """Execute the stage; a failure ends the process with a status."""
        gc.freeze()  # imported modules are not looked through, a seventh of the time of a short stage
        with errors_reported(self.stage_name):
            runtime = RuntimeSettings.read(PARAMS).runtime
            params = read_yaml(PARAMS)
            settings = self.settings.read(PARAMS, **options)
            launched = processes.folder() is not None
            code = self.code_file(options, check=not launched)
            # Held until the process ends; processes of a launched stage see what their launcher holds.
            if not launched:
                self.gpus = lease(gpus_of_stage(runtime), self.gpus_needed(runtime))
            if self.shared and (count := num_processes(runtime)) > 1:
                sys.exit(launch(count, [sys.executable, *sys.orig_argv[1:]], runtime.threads))
            keys = self.settings.keys(**options)
            run = Run(self.stage_name, settings, options, runtime, params, list(keys.values()), code)
            try:
                with suppress(FinishedBefore), threads(runtime.threads):
                    self.function(run, settings, **options)
                run.complete()
            except BaseException as error:
                run.abandon("FAILED" if isinstance(error, Exception) and not stop_requested() else "KILLED")
                if (refusal := memory_refusal(error, settings, keys)) is not None:
                    raise UserError(refusal) from None
                raise

    def code_file(self, options: Mapping[str, str | int], check: bool) -> Path | None:
        """Return the file of the code that the stage starts with, an input; with `check`, brought up to date."""
        return started_with(self.program, self.named(options), check=check)

    def named(self, options: Mapping[str, str | int]) -> dict[str, str | int]:
        """Return the options that are not the default: they name the stage's instance in a dvc.yaml."""
        return {param.name: options[param.name] for param in self.params
                if param.name is not None and options.get(param.name) != param.default}  # fmt: skip

    def gpus_needed(self, runtime: Runtime) -> int | None:
        """Count the GPUs that the stage takes; None: all that are free, under DVC, which runs one stage at a time."""
        if not self.shared:
            return 1
        return runtime.processes or (1 if LENT in os.environ else None)


def stage(settings: type[StageSettings], shared: bool = False) -> Callable[[Callable[..., None]], StageCommand]:
    """Turn `main(run, settings, **options)` into a program; the options are its further parameters, str or int.

    With `shared`, the program starts `runtime.processes` processes, which share the work. `python -m` runs it as soon
    as it is defined, so that nothing follows `main` in its file.
    """
    return lambda function: StageCommand(function, settings, function.__module__, shared).run_if_main()


def option(parameter: Parameter) -> click.Option:
    """The command-line option of a parameter: str, int, or a Literal of words; required where it has no default."""
    choices, name = get_args(parameter.annotation), f"--{parameter.name.replace('_', '-')}"
    kind = click.Choice(choices) if choices else parameter.annotation
    if parameter.default is Parameter.empty:
        return click.Option([name], type=kind, required=True)
    return click.Option([name], type=kind, default=parameter.default, show_default=True)
