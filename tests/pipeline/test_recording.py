"""dvc.lock for both engines: what is stale by content, and what of a finished run is recorded."""

import shutil
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest
import yaml
from stage_project import RUNTIME, Recorder

from unequal.pipeline.attempt import SNAKEMAKE
from unequal.pipeline.fingerprint import CODE, started_with
from unequal.pipeline.graph import (
    forget_recorded,
    record_finished,
    record_or_report,
    stages_of,
    stale_stages,
    write_lock,
)
from unequal.pipeline.stage import Run, stage
from unequal.pipeline.workdirs import finished_runs
from unequal.runtime.files import write_json
from unequal.settings.strict import StageSettings

GRAPH = Path("dvc.yaml")
STAGES = """
stages:
  gate:
    cmd: "true"
    deps: [params.yaml]
    outs: [gate.json]
    meta: {gate: true}
  draw:
    cmd: "true"
    params: [seed, colour]
    deps: [gate.json, input.txt, artifacts/code/test_recording.json]
    outs: [drawn]
  join:
    cmd: "true"
    deps: [drawn]
    metrics:
      - figures.json: {cache: false}
  other:
    cmd: "true"
    deps: [input.txt]
    outs: [other.txt]
"""


class Settings(StageSettings):
    seed: int


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def write_params(seed: int = 1) -> None:
    shared = "{edge: &shade [red, blue], face: *shade}"
    Path("params.yaml").write_text(f"seed: {seed}\ncolour: {shared}\n" + yaml.safe_dump({"runtime": RUNTIME}))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A project of four stages, whose outputs lie there and are recorded."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("recorded"))
        run("git", "init", "-q")
        run("dvc", "init", "-q")
        write_params()
        GRAPH.write_text(STAGES)
        for name in ("input.txt", "gate.json", "figures.json", "other.txt"):
            Path(name).write_text(name)
        Path("drawn").mkdir()
        Path("drawn/1.txt").write_text("1")
        started_with(Path(__file__), {})
        write_lock(GRAPH, stages_of(GRAPH))
        return Path.cwd()


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch, recorded):
    shutil.copytree(recorded, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("unequal.pipeline.stage.Tracker", Recorder)
    monkeypatch.setenv(SNAKEMAKE, "1")


def draw() -> None:
    """Run the stage `draw`, which ends well."""

    @stage(Settings)
    def main(run: Run, settings: Settings) -> None:
        run.input("input.txt")
        folder = run.output("drawn")
        folder.mkdir()
        (folder / "1.txt").write_text(f"seed {settings.seed}")

    with pytest.raises(SystemExit) as ended:
        main.main([], prog_name="draw")
    assert not ended.value.code


def stale() -> set[str]:
    stages = stages_of(GRAPH)
    return stale_stages(stages, lambda one: {dep.def_path for dep in one.deps} - {"gate.json"})


def test_the_lock_file_is_that_of_dvc_commit_and_outputs_are_in_the_cache():
    written = Path("dvc.lock").read_text()
    assert written.count("- red") == 2, "settings that share an anchor stand there one by one"
    Path("drawn/1.txt").unlink()
    run("dvc", "checkout", "--force")
    assert Path("drawn/1.txt").read_text() == "1"
    assert "Data and pipelines are up to date." in run("dvc", "status")
    Path("dvc.lock").unlink()
    run("dvc", "commit", "-f")
    assert yaml.safe_load(Path("dvc.lock").read_text()) == yaml.safe_load(written)


def other_setting() -> None:
    write_params(seed=2)


def other_declared_setting() -> None:
    """One that the stage declares, and its program does not read."""
    Path("params.yaml").write_text(Path("params.yaml").read_text().replace("[red, blue]", "[red, green]"))


def other_input() -> None:
    Path("input.txt").write_text("other")


def other_code() -> None:
    write_json(CODE / "test_recording.json", {"keys": [], "definitions": {}})


def other_output() -> None:
    Path("drawn/1.txt").write_text("other")


def lost_output() -> None:
    Path("drawn/1.txt").unlink()
    Path("drawn").rmdir()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda: None, set()),
        (lambda: Path("params.yaml").touch(), set()),
        (other_setting, {"gate", "draw", "join"}),
        (other_input, {"draw", "join", "other"}),
        (other_code, {"draw", "join"}),
        (other_output, {"draw", "join"}),
        (lost_output, {"draw", "join"}),
    ],
)
def test_content_decides_what_is_stale(change, expected):
    change()
    assert stale() == expected


def test_a_finished_run_is_recorded_and_makes_what_follows_stale():
    write_params(seed=2)
    draw()
    assert record_finished(GRAPH) == ["draw"]
    assert list(finished_runs()) == []
    assert stale() == {"gate", "join"}


def test_a_run_that_is_in_the_lock_is_forgotten_and_another_is_not():
    write_params(seed=2)
    draw()
    forget_recorded()
    assert len(list(finished_runs())) == 1, "equal outputs of other settings are not recorded"
    write_lock(GRAPH, [stage for stage in stages_of(GRAPH) if stage.name == "draw"])
    forget_recorded()
    assert list(finished_runs()) == []


def no_gate() -> None:
    Path("gate.json").unlink()


@pytest.mark.parametrize(
    "change",
    [other_setting, other_declared_setting, other_input, other_code, other_output, lost_output, no_gate],
)
def test_a_run_whose_conditions_no_longer_hold_is_not_recorded(change):
    before = Path("dvc.lock").read_text()
    draw()
    change()
    assert record_finished(GRAPH) == []
    assert Path("dvc.lock").read_text() == before
    assert "draw" in stale()
    assert len(list(finished_runs())) == 1


def test_a_run_is_recorded_though_settings_of_other_stages_were_edited_meanwhile():
    write_params(seed=2)
    draw()
    Path("params.yaml").write_text(Path("params.yaml").read_text() + "recipes: {another: {images: 1}}\n")
    assert record_finished(GRAPH) == ["draw"]
    assert "draw" not in stale_stages([one for one in stages_of(GRAPH) if one.name == "draw"], lambda _: ())


def test_a_recording_that_must_wait_is_reported_in_one_line(capsys):
    write_params(seed=2)
    draw()
    other = "import sys; from dvc.repo import Repo; l = Repo().lock; l.lock(); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", other], stdin=PIPE, stdout=PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        record_or_report(GRAPH)
        process.communicate()
    said = f"Error: {GRAPH}: another process uses DVC; start Snakemake again when it has ended\n"
    assert capsys.readouterr().err == said
    assert len(list(finished_runs())) == 1
