"""A comparison of every kind of arm, from its settings to its page, by the command; and graphs that are laid."""

import io
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import yaml
from commands import done
from in_process import Engine
from params_files import DELETE, edited
from refusals import fingerprint_once

from unequal.cli.main import Stopped
from unequal.comparison.run import LAID, SHARED, laid, prepare, run_engine, write_log
from unequal.errors import UserError
from unequal.pipeline.attempt import ENGINE
from unequal.runtime.files import read_json
from unequal.settings.strict import read_yaml

ROOT = Path(__file__).parents[2]
TINY = Path(__file__).with_name("tiny") / "params.yaml"


def compare(folder: Path, *options: str) -> str:
    command = [sys.executable, "-m", "unequal", "compare", str(folder), *options]
    ended = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


@pytest.mark.slow
def test_a_small_comparison_runs_through_the_shared_graph(project, monkeypatch):
    """Within this process; Snakemake carries out the whole one below."""
    edits: dict[str, Any] = {
        "comparison.arms": {"bases": [], "fresh": ["plain", "again", "small"], "heads": [], "continued": []},
        "comparison.confirm": {"seeds": []},
        "pilot.arms": {"fresh": ["plain"], "continued": []},
        "plans": {},
        "recipes.mixed": DELETE,
        "recipes.base": DELETE,
    }
    edited(TINY, edits | {f"recipes.{name}.images": 256 for name in ("plain", "again", "small")}, project)
    monkeypatch.setattr("unequal.comparison.run.run_engine", engine := Engine())
    monkeypatch.setattr("unequal.pipeline.stage.fingerprint", fingerprint_once)
    monkeypatch.setenv(ENGINE, "in-process")
    done("compare", project)
    assert {"pilot_fresh@plain-10", "train_fresh@small-1", "measure_fresh@again-0", "report"} <= {*engine.ran}
    findings = read_json(project / "results/findings.json")
    assert findings["blocks"] == [0, 1]
    assert set(findings["endpoints"]["fid"]["comparisons"]) == {"small against plain"}
    assert (project / "results/report.html").exists()
    engine.ran.clear()
    done("compare", project)
    assert engine.ran == []


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.usefixtures("warm_start")
def test_a_comparison_runs_from_its_settings_to_its_page(tmp_path):
    (tmp_path / "params.yaml").write_bytes(TINY.read_bytes())
    pilot = compare(tmp_path, "--pilot")
    assert "plain: best of one, double: " in pilot
    assert not (tmp_path / "results/endpoints").exists()
    compare(tmp_path)
    findings = read_json(tmp_path / "results/findings.json")
    assert findings["blocks"] == [0, 1]
    for endpoint in ("loss_over_timesteps", "fid"):
        judged = findings["endpoints"][endpoint]["comparisons"]
        assert set(judged) == {f"{arm} against plain" for arm in ("small", "mixed", "experts")}
        assert endpoint in findings["confirmed"]
    assert read_json(tmp_path / "results/confirm/first.json")["first"]["arm"] == "experts"
    assert (tmp_path / "results/report.html").exists()
    assert "Nothing to be done" in compare(tmp_path, "--dry-run")


def test_a_choice_by_the_pilot_leaves_its_trainings_as_they_are():
    stages = read_yaml(SHARED)["stages"]
    for name in ("pilot_base", "pilot_fresh", "pilot_continued"):
        assert not {"pilot", "pilot.chosen"} & {*stages[name]["params"]}


def test_a_folders_own_stages_are_added_replace_shared_ones_or_remove_them(tmp_path):
    own = {"report": {"cmd": "python -m own.report"}, "confirm": None, "further": {"cmd": "python -m own.further"}}
    (tmp_path / "stages.yaml").write_text(yaml.safe_dump(own), encoding="utf-8")
    graph = tmp_path / "dvc.yaml"
    graph.write_text(laid(SHARED, tmp_path / "stages.yaml"), encoding="utf-8")
    shared, stages = read_yaml(SHARED)["stages"], read_yaml(graph)["stages"]
    assert set(stages) == {*shared, "further"} - {"confirm"}
    assert stages["report"] == own["report"]
    assert stages["measure_fresh"] == shared["measure_fresh"]
    (tmp_path / "stages.yaml").write_text("report: later", encoding="utf-8")
    with pytest.raises(UserError, match="report: 'later' is no stage"):
        laid(SHARED, tmp_path / "stages.yaml")


def test_a_graph_of_the_folders_own_stays(tmp_path):
    (tmp_path / "params.yaml").write_bytes(TINY.read_bytes())
    graph = tmp_path / "dvc.yaml"
    prepare(tmp_path)
    assert graph.read_text(encoding="utf-8").startswith(LAID)
    graph.write_text("stages: {}", encoding="utf-8")
    prepare(tmp_path)
    assert graph.read_text(encoding="utf-8") == "stages: {}"
    assert "no_scm = true" in (tmp_path / ".dvc/config").read_text(encoding="utf-8")


@pytest.mark.parametrize("started", [False, True], ids=["alone", "a run begins meanwhile"])
def test_a_dry_run_leaves_a_folder_as_it_was(started, tmp_path, monkeypatch):
    def engine(folder: Path, *_: object) -> None:
        (folder / ".snakemake").mkdir()
        if started:
            (folder / "work").mkdir()

    monkeypatch.setattr("unequal.comparison.run.run_engine", engine)
    (tmp_path / "params.yaml").write_bytes(TINY.read_bytes())
    assert "Nothing was trained" in done("compare", tmp_path, "--dry-run")
    laid_too = {".dvc", ".dvcignore", ".gitignore", ".snakemake", "dvc.yaml", "work"}
    assert {one.name for one in tmp_path.iterdir()} == {"params.yaml", *(laid_too if started else ())}


def test_a_folder_without_settings_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"no params\.yaml; allowed: a folder with the settings of a comparison"):
        prepare(tmp_path)


@pytest.mark.parametrize("nested", [True, False], ids=["a folder of its own", "a project with git"])
def test_git_sees_nothing_that_was_laid(nested, tmp_path):
    git = partial(subprocess.run, cwd=tmp_path, capture_output=True, text=True, check=True)
    git(["git", "init", "-q"])
    folder = tmp_path / "mine" if nested else tmp_path
    folder.mkdir(exist_ok=True)
    (folder / "params.yaml").write_bytes(TINY.read_bytes())
    prepare(folder)
    (folder / "dvc.lock").touch()
    seen = git(["git", "status", "--porcelain", "--untracked-files=all"]).stdout
    assert seen.split() == ["??", str((folder / "params.yaml").relative_to(tmp_path))]


def test_an_engine_finds_a_relative_folder_from_another_checkout(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    calls: list[list[str]] = []

    def started(words: list[str], **options: Any) -> Any:
        calls.append(words)
        return SimpleNamespace(wait=lambda: 0)

    monkeypatch.setattr("unequal.comparison.run.subprocess.Popen", started)
    run_engine(Path("tries/mine"), "snakemake", 1)
    (words,) = calls
    assert str(tmp_path / "tries/mine") in words


def test_an_engine_hears_ctrl_c_also_from_the_background_of_a_script(tmp_path, monkeypatch):
    ignored = "import signal, sys; sys.exit(signal.getsignal(signal.SIGINT) == signal.SIG_IGN)"
    monkeypatch.setattr("unequal.comparison.run.command", lambda *_: [sys.executable, "-c", ignored])
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        run_engine(tmp_path, "snakemake", 1)
    finally:
        signal.signal(signal.SIGINT, before)


#: A stand-in for an engine: it ignores what asks it to stop, and so does its stage, in a session of its own.
STUBBORN = """
import pathlib, signal, subprocess, sys, time
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
if sys.argv[1:]:
    stage = subprocess.Popen([sys.executable, __file__], start_new_session=True)
    pathlib.Path(sys.argv[1]).write_text(str(stage.pid))
time.sleep(600)
"""


def test_an_engine_that_does_not_stop_is_killed_with_its_stages(tmp_path, monkeypatch):
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    words = [sys.executable, str(tmp_path / "stubborn.py"), str(tmp_path / "stage")]
    monkeypatch.setattr("unequal.comparison.run.command", lambda *_: words)
    monkeypatch.setattr("unequal.pipeline.engines.GRACE_SECONDS", 0.5)
    others, engines = psutil.Process().children(recursive=True), set[psutil.Process]()

    def stop_when_started(number: int, _: Any) -> None:
        if (tmp_path / "stage").exists() and (tmp_path / "stage").read_text():
            engines.update({*psutil.Process().children(recursive=True)} - {*others})
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise Stopped(signal.SIGTERM)

    previous = signal.signal(signal.SIGALRM, stop_when_started)
    signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
    try:
        with pytest.raises(Stopped):
            run_engine(tmp_path, "snakemake", 1)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert int((tmp_path / "stage").read_text()) in {one.pid for one in engines}
    psutil.wait_procs(engines, timeout=5)  # a busy system takes a while to end what is killed
    assert not [one for one in engines if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


def test_a_quiet_engine_prints_a_line_a_stage(tmp_path, capsys):
    output = b"rule train_base:\n    input: a\nFinished jobid: 3 (Rule: train_base)\n2 of 9 steps (22%) done\n"
    output += b"[Fri]\nError in rule prune_group_0:\n    jobid: 4\nError in rule prune_group_0:\n"
    (tmp_path / "prune_group_0.log").write_text("a start\nprune: out of memory\n")
    write_log(io.BytesIO(output), tmp_path / "engine.log")
    assert (tmp_path / "engine.log").read_bytes() == output
    assert capsys.readouterr() == ("  2 of 9: train_base\n", "  prune_group_0 failed: prune: out of memory\n")
