"""A finished run that no engine has recorded: its whole outputs are published once more."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import yaml
from stage_project import RUNTIME, Recorder

from unequal.pipeline import attempt
from unequal.pipeline.attempt import DVC_STAGE, ENGINE, delete_of_folder
from unequal.pipeline.stage import Run, stage
from unequal.runtime.files import read_facts, write_facts
from unequal.settings.strict import StageSettings

OUTPUTS = ("artifacts/file.txt", "artifacts/folder/inner.txt", "results/figures.json")


class Settings(StageSettings):
    seed: int


class Lost(BaseException):
    """The power is cut: nothing is tidied up."""


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("unequal.pipeline.stage.Tracker", Recorder)
    monkeypatch.setattr(Recorder, "calls", [])
    monkeypatch.setenv(ENGINE, "first")
    monkeypatch.delenv(DVC_STAGE, raising=False)
    write_params()
    return tmp_path


def write_params(seed: int = 1) -> None:
    Path("params.yaml").write_text(yaml.safe_dump({"seed": seed, "runtime": RUNTIME}))


def run(option: str = "plain") -> bool:
    """Return True where the stage, which must succeed, has computed anything."""
    computed = []

    @stage(Settings)
    def main(run: Run, settings: Settings, option: str) -> None:
        (run.work / "state").touch()
        computed.append(option)
        run.output("artifacts/file.txt").write_text(f"hello {settings.seed}")
        folder = run.output("artifacts/folder")
        folder.mkdir()
        (folder / "inner.txt").write_text("hello")
        run.metrics("results/figures.json", {"fid": {"mean": 3.5}}, headline={"fid_base": 3.5})
        run.parent_artifacts(["artifacts/file.txt"])

    with pytest.raises(SystemExit) as ended:
        main(["--option", option])
    assert ended.value.code == 0
    return bool(computed)


def delete_outputs() -> dict[str, str]:
    said = {name: Path(name).read_text() for name in OUTPUTS}
    for name in OUTPUTS:
        Path(name).unlink()
    Path("artifacts/folder").rmdir()
    return said


def kept() -> list[Path]:
    return [note.parent for note in Path("work").glob("*/finished.json")]


def test_a_finished_run_is_not_computed_again_but_published(capsys, monkeypatch):
    assert run()
    (work,) = kept()
    assert all((work / "outputs" / name).samefile(name) for name in OUTPUTS)  # it takes no disk
    logged = [call for call in Recorder.calls if call[0] != "params"]
    before = delete_outputs()
    Recorder.calls.clear()
    monkeypatch.setenv(ENGINE, "second")
    assert not run()
    assert {name: Path(name).read_text() for name in OUTPUTS} == before
    assert [call for call in Recorder.calls if call[0] != "params"] == logged
    assert capsys.readouterr().err == f"test_finished: finished before; its outputs are taken from {work.absolute()}\n"
    assert sorted(path.name for path in work.iterdir()) == ["finished.json", "outputs"]
    assert read_facts(work / "finished.json")["engine"] == "second"


def test_a_run_that_a_person_started_leaves_nothing(monkeypatch, project):
    monkeypatch.delenv(ENGINE)
    assert run()
    assert list((project / "work").iterdir()) == []
    assert run()


@pytest.mark.parametrize("moment", ["put_into_place", "leave_outputs"])
def test_a_run_that_is_cut_off_on_its_way_out_has_finished(monkeypatch, moment):
    with monkeypatch.context() as patch:
        patch.setattr(f"unequal.pipeline.attempt.{moment}", raising(Lost))
        patch.setattr(Run, "abandon", lambda *_: None)
        with pytest.raises(Lost):
            run()
    assert kept()
    assert not run()
    assert all(Path(name).exists() for name in OUTPUTS)


def test_a_disk_that_is_full_on_its_way_out_and_not_later(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("unequal.pipeline.attempt.put_into_place", raising(lambda: OSError(28, "No space left")))
        with pytest.raises(AssertionError, match="assert 1 == 0"):
            run()
    assert not run()


def raising(error: Callable[[], BaseException]) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise error()

    return fail


def altered() -> None:
    with Path("artifacts/folder/inner.txt").open("a") as file:
        file.write(" and more")


def lost() -> None:
    (work,) = kept()
    (work / "outputs/artifacts/file.txt").unlink()


def cut_short() -> None:
    (work,) = kept()
    (work / "finished.json").write_text('{"instance": ')


def otherwise_set() -> None:
    write_params(seed=2)


@pytest.mark.parametrize("spoil", [altered, lost, cut_short, otherwise_set, delete_of_folder])
def test_what_is_not_whole_or_not_wanted_is_computed_anew(spoil):
    run()
    spoil()
    delete_outputs()
    assert run()
    assert Path("artifacts/folder/inner.txt").read_text() == "hello"
    assert len(kept()) == 1
    assert len(list(Path("work").iterdir())) == 1


def test_dvc_has_recorded_a_stage_when_it_starts_another(monkeypatch):
    monkeypatch.delenv(ENGINE)
    monkeypatch.setenv(DVC_STAGE, "one")
    run("one")
    with monkeypatch.context() as patch:
        patch.setattr(attempt, "process_name", lambda process: f"another than {process.pid}")
        run("two")
    assert len(kept()) == 2
    run("three")
    assert sorted(work.name.split("-")[1] for work in kept()) == ["three", "two"]


def test_the_process_that_started_a_stage_is_distinguished_from_others_of_its_number(monkeypatch):
    monkeypatch.delenv(ENGINE)
    assert attempt.engine_run() is None
    monkeypatch.setenv(DVC_STAGE, "one")
    parent = psutil.Process(os.getppid())
    assert attempt.engine_run() == attempt.process_name(parent)
    monkeypatch.setattr(psutil.Process, "create_time", lambda _: 0.0)
    assert attempt.engine_run() != attempt.process_name(psutil.Process()) and attempt.engine_run().endswith("-0.00")


NAMES_ITS_ENGINE = "from unequal.pipeline.attempt import engine_run; print(engine_run())"


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_dvc_is_known_above_the_shells_of_a_command(shell, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(attempt.__file__).parents[2]))
    monkeypatch.setenv(DVC_STAGE, "one")
    monkeypatch.delenv(ENGINE)
    Path("engine.py").write_text(NAMES_ITS_ENGINE)
    command = [shell, "-c", f"sh -c '{sys.executable} engine.py; true'; true"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == attempt.process_name(psutil.Process())


@pytest.mark.parametrize("recorded", [True, False])
def test_dvc_computes_a_recorded_stage_again_however_soon_it_is_forced(recorded, monkeypatch):
    monkeypatch.delenv(ENGINE)
    monkeypatch.setenv(DVC_STAGE, "one")
    with monkeypatch.context() as patch:
        patch.setattr(attempt, "process_name", lambda process: "a DVC that has ended in this second")
        assert run()
    monkeypatch.setattr(attempt, "recorded_by_dvc", lambda outputs: recorded)
    assert run() == recorded


def test_a_run_that_has_outlived_its_engine_publishes_nothing_over_a_later_one(capsys):
    """The engine is killed, the settings are edited, the engine is started again; the first run ends last."""

    @stage(Settings)
    def main(run: Run, settings: Settings) -> None:
        (run.work / "state").touch()
        run.output("out.txt").write_text(str(settings.seed))
        if settings.seed == 1:
            write_params(seed=2)
            with pytest.raises(SystemExit) as later:
                main([])
            assert later.value.code == 0

    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith(
        "test_finished: started again meanwhile with other settings, inputs or code"
    )
    assert Path("out.txt").read_text() == "2"
    assert [path.name for path in Path("work").glob("*/state")] == ["state"]


SHARED = """
import os
from pathlib import Path
from unittest.mock import MagicMock
from unequal.pipeline import stage as harness
from unequal.pipeline.stage import Run, stage
from unequal.settings.strict import StageSettings

class Settings(StageSettings):
    seed: int
harness.Tracker = MagicMock()

@stage(Settings, shared=True)
def main(run: Run, settings: Settings) -> None:
    run.work
    Path(f"computed-{os.environ['RANK']}").touch()
    if run.leads:
        run.output("out.txt").write_text("1")
"""


@pytest.mark.slow
@pytest.mark.thorough
def test_several_processes_agree_that_all_is_done(monkeypatch, project):
    Path("shared.py").write_text(SHARED)
    Path("params.yaml").write_text(yaml.safe_dump({"seed": 1, "runtime": RUNTIME | {"processes": 2}}))
    monkeypatch.setenv("PYTHONPATH", str(Path(attempt.__file__).parents[2]))
    for computed in (True, False):
        for path in project.glob("computed-*"):
            path.unlink()
        Path("out.txt").unlink(missing_ok=True)
        subprocess.run([sys.executable, "shared.py"], check=True, timeout=60, capture_output=True)
        assert [Path(f"computed-{rank}").exists() for rank in range(2)] == [computed] * 2
        assert Path("out.txt").read_text() == "1"


@pytest.mark.parametrize("key", ["outputs", "parent_artifacts"])
@pytest.mark.parametrize("path", ["/etc/x", "artifacts/../../x", ""])
def test_a_note_that_leads_out_of_the_folder_is_damaged(key, path):
    run()
    (work,) = kept()
    facts = read_facts(work / "finished.json")
    assert attempt.read_note(work) is not None
    changed = {path: "0"} if key == "outputs" else [path]
    write_facts(work / "finished.json", facts | {key: changed})
    assert attempt.read_note(work) is None
    assert run()
