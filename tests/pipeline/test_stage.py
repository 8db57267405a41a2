import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from refusals import without_code
from stage_project import RUNTIME, Recorder

from unequal.errors import UserError
from unequal.pipeline.stage import Run, StageCommand, stage
from unequal.runtime.environment import Stopped
from unequal.runtime.processes import FOLDER
from unequal.settings.strict import StageSettings, Strict, key


class Settings(StageSettings):
    seed: int
    steps: int = key("recipes.{recipe}")


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    """An empty project with settings and one input."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("unequal.pipeline.stage.Tracker", Recorder)
    monkeypatch.setattr(Recorder, "calls", [])
    monkeypatch.setattr("unequal.runtime.processes._stopped_at", [])
    monkeypatch.setattr("unequal.pipeline.stage.started_with", without_code)
    write_params()
    Path("in.txt").write_text("hello")
    return tmp_path


def write_params(seed: int = 1, **runtime: Any) -> None:
    params = {"seed": seed, "recipes": {"plain": 10, "other": 10}, "unrelated": 5, "runtime": RUNTIME | runtime}
    Path("params.yaml").write_text(yaml.safe_dump(params))


def program(body: Callable[[Run], None]) -> StageCommand:
    """A stage with one option whose work is `body`."""

    @stage(Settings)
    def main(run: Run, settings: Settings, recipe: str) -> None:
        body(run)

    return main


def status(body: Callable[[Run], None], recipe: str = "plain") -> int | str | None:
    """Exit status of that stage as a program."""
    with pytest.raises(SystemExit) as exit_:
        program(body)(["--recipe", recipe])
    return exit_.value.code


def launched(rank: int, count: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this process one of several that share a stage, by their common folder."""
    monkeypatch.setattr("unequal.pipeline.program.follow_launcher", lambda: None)
    for name, value in {"WORLD_SIZE": str(count), "RANK": str(rank), FOLDER: str(folder)}.items():
        monkeypatch.setenv(name, value)


def write_two(run: Run) -> None:
    """One file and one folder, made from the input."""
    text = run.input("in.txt").read_text()
    run.output("artifacts/file.txt").write_text(text)
    folder = run.output("artifacts/folder")
    folder.mkdir()
    (folder / "inner.txt").write_text(text * 2)


def and_then(action: Callable[[], Any]) -> Callable[[Run], None]:
    """Outputs and resumable state, then something that goes wrong."""

    def body(run: Run) -> None:
        write_two(run)
        (run.work / "state").write_text("resumable")
        action()

    return body


def raising(error: BaseException) -> Callable[[Run], None]:
    def action() -> None:
        raise error

    return and_then(action)


def work_of(body: Callable[[Run], None] = write_two, recipe: str = "plain") -> Path:
    """The work directory that a stage is given."""
    seen: list[Path] = []

    def asking(run: Run) -> None:
        body(run)
        seen.append(run.work)

    assert status(asking, recipe) == 0
    return seen[0]


def test_outputs_replace_older_ones_and_the_work_directory_goes(project):
    Path("artifacts/folder").mkdir(parents=True)
    Path("artifacts/folder/stale.txt").write_text("old")
    assert status(write_two) == 0
    assert [file.name for file in Path("artifacts/folder").iterdir()] == ["inner.txt"]
    assert Path("artifacts/file.txt").read_text() == "hello"
    assert Path("artifacts/folder/inner.txt").read_text() == "hellohello"
    assert list((project / "work").iterdir()) == []
    assert Recorder.calls[-1] == ("finish", "FINISHED")


@pytest.mark.parametrize(
    ("error", "code", "line", "end"),
    [
        (UserError("this is\nwrong"), 1, "test_stage: this is wrong\n", "FAILED"),
        (OSError(errno.ENOSPC, "", "big.bin"), 1, "test_stage: big.bin: No space left on device\n", "FAILED"),
        (OSError(errno.EIO, ""), 1, "test_stage: {here}: Input/output error\n", "FAILED"),
        # A library may wrap the error of the system.
        (RuntimeError("No space left on device (28)"), 1, "test_stage: {here}: No space left on device\n", "FAILED"),
        (Stopped(signal.SIGINT), 130, "test_stage: stopped; the same command goes on\n", "KILLED"),
    ],
)
def test_what_stops_a_stage_leaves_no_output_and_keeps_the_state(project, capsys, error, code, line, end):
    assert status(raising(error)) == code
    assert capsys.readouterr().err == line.format(here=project)
    assert not Path("artifacts").exists()
    kept = [path.relative_to(project / "work") for path in (project / "work").rglob("*") if path.is_file()]
    assert sorted(path.name for path in kept) == ["kin.json", "state"]
    assert Recorder.calls[-1] == ("finish", end)


class Training(Strict):
    batch_size: int = 8
    gradient_accumulation: int = 1


class Hungry(StageSettings):
    training: Training
    decoded: int = key("autoencoder.batch_size")


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nGPU 0 has …"),
        MemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nGPU 0 has …"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
    ],
)
def test_too_little_memory_is_one_line_that_names_what_to_lower(capsys, error):
    @stage(Hungry)
    def main(run: Run, settings: Hungry) -> None:
        raise error

    params = {"training": {"batch_size": 8, "gradient_accumulation": 1}, "autoencoder": {"batch_size": 4}}
    Path("params.yaml").write_text(yaml.safe_dump(params | {"runtime": RUNTIME}))
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 1
    line = capsys.readouterr().err
    assert line.startswith("test_stage: out of memory (") and line.count("\n") == 1
    assert line.endswith(
        "; raise training.gradient_accumulation or lower training.batch_size or lower autoencoder.batch_size\n"
    )


def test_each_process_works_on_a_gpu_of_its_own(tmp_path, monkeypatch):
    chosen: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"GPU {device.index}")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 0))
    launched(3, 4, tmp_path, monkeypatch)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", False)
    for tried in (False, True):
        write_params(device="cuda", cudnn_benchmark=tried)
        assert status(lambda run: chosen.append(run.device)) == 0
        assert torch.backends.cudnn.benchmark == tried
    assert chosen == [torch.device("cuda", 3)] * 4
    assert ("params", {"device": "GPU 3", "fp32": "convolutions ieee, products ieee"}) in Recorder.calls


def terminated() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def swallowed() -> None:
    """A library catches the exit, and fails later."""
    try:
        terminated()
    except BaseException:
        raise TypeError("an argument is missing") from None


@pytest.mark.parametrize("action", [terminated, swallowed])
def test_termination_ends_with_143_and_one_line(capsys, action):
    before = signal.getsignal(signal.SIGTERM)
    assert status(and_then(action)) == 143
    assert capsys.readouterr().err == "test_stage: stopped; the same command goes on\n"
    assert signal.getsignal(signal.SIGTERM) is before
    assert Recorder.calls[-1] == ("finish", "KILLED")


def test_a_bug_keeps_its_traceback():
    with pytest.raises(ZeroDivisionError):
        program(raising(ZeroDivisionError()))(["--recipe", "plain"])
    assert Recorder.calls[-1] == ("finish", "FAILED")


def test_state_is_resumed_by_the_same_run_only(monkeypatch):
    first = work_of()
    assert work_of() == first
    assert work_of(recipe="other") != first
    write_params(seed=2)
    assert work_of() != first
    write_params(seed=1, device="auto")
    assert work_of() == first
    with monkeypatch.context() as patch:
        patch.setattr("unequal.pipeline.stage.started_with", lambda *_, **__: Path("code.json"))
        Path("code.json").write_text("{}")
        assert work_of() != first
    Path("in.txt").write_text("changed")
    assert work_of() != first


def test_code_that_another_start_has_edited_meanwhile_publishes_nothing(capsys, monkeypatch):
    """A run that has outlived its engine, where the next one has started the stage with other code."""
    monkeypatch.setattr("unequal.pipeline.stage.started_with", lambda *_, **__: Path("code.json"))
    Path("code.json").write_text("{}")
    assert status(lambda run: (write_two(run), Path("code.json").write_text("[]"))) == 1
    assert capsys.readouterr().err.startswith("test_stage: code.json: changed since this stage read it")
    assert not Path("artifacts/file.txt").exists()


def test_a_second_attempt_finds_the_state_but_no_unfinished_output():
    def resume(run: Run) -> None:
        write_two(run)
        assert (run.work / "state").read_text() == "resumable"

    status(raising(UserError("first attempt")))
    assert status(resume) == 0


def test_a_work_directory_begun_by_a_killed_run_is_taken(project):
    path = work_of()
    path.mkdir()
    (path / ".kin.json.0123").touch()  # cut off in the middle of its first file
    assert status(write_two) == 0
    assert list((project / "work").iterdir()) == []


def test_the_state_stays_until_the_log_is_ended(monkeypatch):
    """A server that answers late is waited for, and a run may be killed meanwhile, after which engines delete its
    outputs."""
    kept: list[str] = []

    def resumable(run: Run) -> None:
        write_two(run)
        (run.work / "state").write_text("resumable")
        monkeypatch.setattr(run._tracker, "finish", lambda _: kept.append((run.work / "state").read_text()))

    assert status(resumable) == 0
    assert kept == ["resumable"]


def test_of_a_finished_state_a_kill_leaves_no_part(project, monkeypatch):
    """Deleted file by file, it would be taken up half by the next run."""
    rmtree, found = shutil.rmtree, []

    def killed(folder: Path, **_: Any) -> None:
        if (folder / "state").exists():
            (folder / "state").unlink()
            sys.exit(143)

    def resumable(run: Run) -> None:
        found.append(sorted(path.name for path in run.work.iterdir()))
        for name in ("state", "more"):
            (run.work / name).touch()
        run.output("out.txt").touch()

    monkeypatch.setattr(shutil, "rmtree", killed)
    assert status(resumable) == 143
    monkeypatch.setattr(shutil, "rmtree", rmtree)
    assert status(resumable) == 0
    assert found == [["kin.json"]] * 2
    assert list((project / "work").iterdir()) == []


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (lambda run: (run.output("out.txt"), run.input("in.txt")), r"in\.txt"),
        (lambda run: (run.output("a.txt").write_text("a"), run.output("b.txt")), r"b\.txt"),
    ],
    ids=["an input after the key", "an announced output that is not written"],
)
def test_errors_of_a_programmer_are_no_refusals(body, named):
    with pytest.raises(RuntimeError, match=named):
        program(body)(["--recipe", "plain"])
    assert not Path("a.txt").exists()


@pytest.mark.parametrize(
    ("runtime", "body", "refusal"),
    [
        ({}, lambda run: run.input("artifacts/none"), "test_stage: artifacts/none: missing"),
        ({"device": "cuda"}, lambda run: run.device, "test_stage: params.yaml: runtime.device: 'cuda': PyTorch"),
    ],
)
def test_bad_inputs_and_settings_are_one_line(capsys, monkeypatch, runtime, body, refusal):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    write_params(**runtime)
    assert status(body) == 1
    line = capsys.readouterr().err
    assert line.startswith(refusal) and line.count("\n") == 1


@contextmanager
def at_work_elsewhere(lock: str) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that holds a lock as long as it lives, at most for the block."""
    other = "import sys, filelock as f; l = f.FileLock(sys.argv[1]); l.acquire(); print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", other, lock]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        holder.stdout.readline()
        yield holder


def test_two_processes_never_share_a_work_directory(capsys):
    """A cluster starts a retry as soon as it has asked the first one to end; a stage may outlive its engine."""
    path, order = work_of(), list[str]()
    with at_work_elsewhere(f"{path}.lock") as holder:
        threading.Timer(0.5, lambda: (order.append("ended"), holder.terminate())).start()
        assert status(lambda run: (write_two(run), order.append("begun"))) == 0
    assert order == ["ended", "begun"]
    assert capsys.readouterr().err.startswith(f"{path}: waiting for another process that is at work on the same; end")


def test_metrics_are_an_output_and_the_headline_goes_to_the_pipeline():
    content = {"fid": {"mean": 3.5}, "n": 10}
    assert status(lambda run: run.metrics("results/fid.json", content, headline={"fid_base": 3.5})) == 0
    assert json.loads(Path("results/fid.json").read_text()) == content
    assert ("results", content) in Recorder.calls
    assert ("parent log", {"fid_base": 3.5}) in Recorder.calls
    assert ("artifacts", [Path("results/fid.json")]) in Recorder.calls


def test_of_several_processes_only_the_leader_publishes(tmp_path, monkeypatch):
    launched(1, 2, tmp_path, monkeypatch)
    (tmp_path / "finished-no").touch()
    assert status(write_two) == 0
    assert not Path("artifacts").exists()
    (tmp_path / "done-1").touch()
    monkeypatch.setenv("RANK", "0")
    assert status(write_two) == 0
    assert Path("artifacts/file.txt").exists()


@pytest.mark.slow
def test_the_harness_starts_without_the_library_of_tracking():
    code = "import sys, unequal.pipeline.stage; print([name for name in ('mlflow',) if name in sys.modules])"
    root = Path(__file__).parents[1]
    run = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
