"""A finished run that no engine has recorded: its whole outputs are published once more."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from refusals import ROOT, without_code
from stage_project import RUNTIME, Recorder

from unequal.pipeline import digests, workdirs
from unequal.pipeline.attempt import DVC_STAGE, SNAKEMAKE
from unequal.pipeline.digests import digest_of
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
    monkeypatch.setenv(SNAKEMAKE, "1")
    monkeypatch.setattr("unequal.pipeline.stage.started_with", without_code)
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
    assert not run()
    assert {name: Path(name).read_text() for name in OUTPUTS} == before
    assert [call for call in Recorder.calls if call[0] != "params"] == logged
    assert capsys.readouterr().err == f"test_finished: finished before; its outputs are taken from {work.absolute()}\n"
    assert sorted(path.name for path in work.iterdir()) == ["finished.json", "outputs"]


def test_a_run_that_a_person_started_leaves_nothing(monkeypatch, project):
    monkeypatch.delenv(SNAKEMAKE)
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


@pytest.mark.parametrize("spoil", [altered, lost, cut_short, otherwise_set, workdirs.clear_finished])
def test_what_is_not_whole_or_not_wanted_is_computed_anew(spoil):
    run()
    spoil()
    delete_outputs()
    assert run()
    assert Path("artifacts/folder/inner.txt").read_text() == "hello"
    assert len(kept()) == 1
    assert len(list(Path("work").iterdir())) == 1


def edited_meanwhile(before: str, change: Callable[[], object], capsys: pytest.CaptureFixture[str]) -> str:
    """Run a stage during which something changes; return its one line. What it would replace stays."""

    @stage(Settings)
    def main(run: Run, settings: Settings) -> None:
        run.input("in.txt")
        (run.work / "state").touch()
        run.output("out.txt").write_text(f"seed {settings.seed}")
        change()

    Path("out.txt").write_text(before)
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 1
    line = capsys.readouterr().err
    assert line.count("\n") == 1 and "nothing is published" in line
    assert Path("out.txt").read_text() == before
    return line


CHANGES = {
    "params.yaml: seed: 1 → 2": lambda: write_params(seed=2),
    "in.txt": lambda: Path("in.txt").write_text("other"),
    "in.txt: changed": lambda: Path("in.txt").unlink(),
}


@pytest.mark.parametrize("engine", [SNAKEMAKE, DVC_STAGE, None])
@pytest.mark.parametrize("said", CHANGES)
def test_what_was_changed_since_it_was_read_is_said_and_nothing_is_published(said, engine, capsys, monkeypatch):
    monkeypatch.delenv(SNAKEMAKE)
    if engine is not None:
        monkeypatch.setenv(engine, "1")
    Path("in.txt").write_text("hello")
    line = edited_meanwhile("earlier", CHANGES[said], capsys)
    assert line.startswith(f"test_finished: {said}")
    assert [path.name for path in Path("work").glob("*/state")] == ["state"], "its work stays"
    # Put back, the same run is published without being computed again.
    write_params(seed=1)
    Path("in.txt").write_text("hello")

    @stage(Settings)
    def main(run: Run, settings: Settings) -> None:
        run.input("in.txt")
        run.output("out.txt").write_text("computed again")

    with pytest.raises(SystemExit):
        main([])
    assert Path("out.txt").read_text() == "seed 1"


def test_settings_of_others_and_a_touched_input_may_change_meanwhile():
    @stage(Settings)
    def main(run: Run, settings: Settings) -> None:
        run.input("in.txt")
        run.output("out.txt").touch()
        Path("params.yaml").write_text(yaml.safe_dump({"seed": 1, "other": 2, "runtime": RUNTIME}))
        os.utime("in.txt", (1, 1))

    Path("in.txt").write_text("hello")
    with pytest.raises(SystemExit) as ended:
        main([])
    assert not ended.value.code and Path("out.txt").exists()


def test_a_run_that_has_outlived_its_engine_publishes_nothing_over_a_later_one(capsys):
    """The engine is killed, the settings are edited, the engine is started again; the first run ends last."""

    def edit_and_start_again() -> None:
        write_params(seed=2)
        run()

    Path("in.txt").write_text("hello")
    edited_meanwhile("of the later run", edit_and_start_again, capsys)


def flipped(path: Path) -> None:
    times, content = path.stat(), bytearray(path.read_bytes())
    content[0] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def copied(path: Path) -> None:
    """Give a file content of its own, as DVC's cache does: the stored output is a hard link."""
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)


@pytest.mark.parametrize("recorded", ["in dvc.lock", "by its note"])
@pytest.mark.parametrize("read", ["artifacts/file.txt", "artifacts/folder", "artifacts", "artifacts/folder/inner.txt"])
def test_an_input_that_is_not_what_its_stage_has_made_is_refused_with_what_repairs_it(read, recorded, capsys):
    run()
    altered = Path(
        "artifacts/file.txt" if read in ("artifacts/file.txt", "artifacts") else "artifacts/folder/inner.txt"
    )
    copied(altered)
    if recorded == "in dvc.lock":
        outs = [{"path": name, "md5": digest_of(Path(name))} for name in ("artifacts/file.txt", "artifacts/folder")]
        Path("dvc.lock").write_text(yaml.safe_dump({"stages": {"make": {"outs": outs}}}))
        workdirs.clear_finished()

    @stage(Settings)
    def main(run: Run, settings: Settings, other: int = 0) -> None:
        run.input(read)
        run.output("out.txt").touch()

    with pytest.raises(SystemExit) as ended:
        main(["--other", "1"])
    assert not ended.value.code
    flipped(altered)
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["--other", "2"])
    line, output = capsys.readouterr().err, altered if altered.parent.name == "artifacts" else altered.parent
    assert ended.value.code == 1 and line.count("\n") == 1
    assert f"{output}: altered since" in line and f"`rm {'-r ' if output.is_dir() else ''}{output}`" in line


def test_what_engines_bring_up_to_date_may_differ_from_the_lock_file():
    """Snakemake writes the files of sources and code itself; dvc.lock has them as DVC's stage made them last."""
    outs = [{"path": "artifacts/sources", "md5": "1" * 32 + ".dir"}]
    for stage_name, made in (("code", {}), ("other", {Path("artifacts/sources"): (outs[0]["md5"], "other")})):
        Path("dvc.lock").write_text(yaml.safe_dump({"stages": {stage_name: {"outs": outs}}}))
        assert digests.recorded_outputs() == made


def test_digests_are_those_of_dvc(project):
    for name, text in {"a.txt": "a", "folder/b.txt": "b", "folder/ä/c.txt": "c", "folder/B.txt": "d"}.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    subprocess.run(["dvc", "init", "-q", "--no-scm"], check=True)
    subprocess.run(["dvc", "add", "-q", "a.txt", "folder"], check=True)
    for name in ("a.txt", "folder"):
        assert digest_of(Path(name)) == yaml.safe_load(Path(f"{name}.dvc").read_text())["outs"][0]["md5"]


def test_a_large_input_is_read_once_by_all_stages_until_it_changes(monkeypatch):
    images = Path("images.npz")
    images.write_bytes(b"images")
    small = digests.input_digest(images)
    monkeypatch.setattr(digests, "LARGE", images.stat().st_size)
    assert digests.input_digest(images) == small == digest_of(images)
    with monkeypatch.context() as patch:
        patch.setattr(digests, "content_hash", lambda *_: pytest.fail("it was read"))
        assert digests.input_digest(images) == small
    images.write_bytes(b"altered")
    assert digests.input_digest(images) == digest_of(images) != small


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
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
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
    assert workdirs.read_note(work) is not None
    changed = {path: "0"} if key == "outputs" else [path]
    write_facts(work / "finished.json", facts | {key: changed})
    assert workdirs.read_note(work) is None
    assert run()
