"""An engine that is killed with its stage or without it: the same command goes on, and nothing finished is repeated."""

import json
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import yaml
from harness.projects import copy_of_repository, run
from harness.starting import Command, Commands, log_of

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("warm_start")]

ENGINES = {"dvc": ("dvc", "repro"), "snakemake": ("snakemake", "--cores", "1")}
FORCED = {"dvc": ("dvc", "repro", "--force"), "snakemake": ("snakemake", "--cores", "1", "--forceall")}
PATIENCE_SECONDS = 120
#: Its program waits for a word before it ends, and counts how often it has come to that.
PROGRAM = '''"""A stage that takes as long as its settings say."""

import time
from contextlib import suppress
from pathlib import Path

from unequal.pipeline.stage import Run, stage
from unequal.settings.strict import StageSettings


class Settings(StageSettings):
    """The only key."""

    seed: int


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Wait, then write."""
    made = run.output("artifacts/made")
    Path("begun").touch()
    while not Path("go").exists():
        time.sleep(0.05)
    with Path("computed").open("a") as file:
        file.write("once ")
    made.mkdir()
    (made / "out.txt").write_text("made")
'''
MADE = Path("artifacts/made/out.txt")


@pytest.fixture
def project(tmp_path):
    """A copy with that stage alone."""
    project = copy_of_repository(tmp_path / "project")
    shutil.rmtree(project / "studies")
    (project / "stages/slow.py").write_text(PROGRAM)
    code = yaml.safe_load((project / "dvc.yaml").read_text())["stages"]["code"]
    slow = {
        "cmd": "python -m stages.slow",
        "deps": ["artifacts/code/slow.json"],
        "params": ["seed"],
        "outs": ["artifacts/made"],
    }
    (project / "dvc.yaml").write_text(yaml.safe_dump({"stages": {"code": code, "slow": slow}}))
    return project


def wait_for(reached: Callable[[], bool], engine: Command, project: Path) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not reached():
        assert engine.ended(0.02) is None and time.monotonic() < end, log_of(project).read_text()


def said(project: Path) -> str:
    return "".join(path.read_text() for path in (log_of(project), project / "logs/slow.log") if path.exists())


def hold_between_writes(project: Path) -> None:
    """Suspend DVC, if it is the engine, where its table of locks is whole: it writes that in place."""
    table = project / ".dvc/tmp/rwlock"
    while table.exists():
        if not (text := table.read_text()).endswith("}"):
            continue
        holder = psutil.Process(json.loads(text)["write"].popitem()[1]["pid"])
        holder.suspend()
        time.sleep(0.1)  # the signal is on its way, and a call to the system comes to its end
        if table.read_text() == text:
            return
        holder.resume()


def killed(engine: Command, outliving: bool, project: Path) -> psutil.Process:
    """Kill an engine and, unless it is to outlive it, the stage that it has started last; gives the latter."""
    stages = [
        process
        for process in psutil.process_iter(["cmdline", "cwd"])
        if (process.info["cmdline"] or [])[-2:] == ["-m", "stages.slow"] and process.info["cwd"] == str(project)
    ]
    stage = max(stages, key=psutil.Process.create_time)
    hold_between_writes(project)
    engine.process.kill()
    if not outliving:
        with suppress(psutil.NoSuchProcess):  # it was done
            stage.kill()
    engine.ended(PATIENCE_SECONDS)
    return stage


@pytest.mark.parametrize("name", ["snakemake", pytest.param("dvc", marks=pytest.mark.thorough)])
def test_the_same_command_goes_on_and_computes_nothing_twice(project, name):
    start = Commands(project).start
    first = start(ENGINES[name])
    wait_for((project / "begun").exists, first, project)
    outliving = killed(first, outliving=True, project=project)
    second = start(ENGINES[name])
    wait_for(lambda: "waiting for another process that is at work on the same" in said(project), second, project)
    assert outliving.is_running()
    (project / "go").touch()
    wait_for(lambda: "finished before" in said(project) and (project / MADE).exists(), second, project)
    killed(second, outliving=False, project=project)
    third = start(ENGINES[name])
    assert third.ended(PATIENCE_SECONDS) == 0, said(project)
    # Snakemake records what the killed one has left before it looks for stale stages.
    assert "finished before" in said(project) or "Nothing to be done" in said(project)
    assert (project / MADE).read_text() == "made"
    assert (project / "computed").read_text() == "once "
    run(project, *FORCED[name])
    assert (project / "computed").read_text() == "once once "
