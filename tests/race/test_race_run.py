"""A tiny race from its settings to its recipe, through the graph and through both engines."""

import importlib
import json
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from in_process import Engine

from unequal.cli.main import unequal
from unequal.pipeline.attempt import ENGINE
from unequal.pipeline.engines import family
from unequal.pipeline.fingerprint import programs
from unequal.pipeline.recording import stages_of
from unequal.race import run
from unequal.race.bracket import BRACKET, GRAPH, SLOTS, bracket, bracket_text, rungs
from unequal.race.params import RaceParams
from unequal.race.plan import SHORT
from unequal.race.standing import Candidate

TINY = Path(__file__).parent / "tiny/params.yaml"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tiny race in a folder of its own, which is the working directory."""
    shutil.copy(TINY, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_graph_of_a_bracket_resolves(folder: Path) -> None:
    run.prepare(folder)
    assert [stage.name for stage in stages_of(GRAPH)] == []
    race = RaceParams.read(TINY).race
    assert race is not None
    results = {Candidate(arm, rate): {100: 1.0 + rate} for arm in race.arms for rate in race.rates}
    course = rungs(race, {SHORT: results})
    BRACKET.write_text(bracket_text(bracket(race, course)), encoding="utf-8")
    stages = {stage.name: stage for stage in stages_of(GRAPH)}
    assert len(stages) == 2 * (10 + 2) + 2 + 1 + 1
    waits_for = {name: [dep.def_path for dep in one.deps] for name, one in stages.items()}
    assert "artifacts/race/models/short/uniform_x1_block_100" in waits_for["profile_control@control"]
    over_slots = {name for name, paths in waits_for.items() if SLOTS in paths}
    assert over_slots == {"train_arm@short_slots_x1_block_100", "train_arm@short_slots_x2_block_100"}
    whole = stages["train_arm@whole_uniform_x1_block_0"]
    assert "--rate 1 --block 0 --share 1 --name uniform_x1_block_0" in whole.cmd
    assert "artifacts/race/admitted/short/uniform_x1.json" in [dep.def_path for dep in whole.deps]
    assert next(out.def_path for out in stages["judge_rung@short"].outs) == "artifacts/race/admitted/short"


def test_stages_declare_the_settings_that_they_read(folder: Path) -> None:
    run.prepare(folder)
    race = RaceParams.read(TINY).race
    assert race is not None
    document = bracket(race, rungs(race, {})) | {"sampled": {"whole": {"after": "results/race/standing/whole.json"}}}
    BRACKET.write_text(bracket_text(document), encoding="utf-8")
    for stage in stages_of(GRAPH):
        _, _, _, module, *words = shlex.split(stage.cmd)
        command = importlib.import_module(module).main
        options = command.make_context(module, words).params
        declared = {name for dep in stage.deps if hasattr(dep, "params") for name in dep.params}
        assert set(command.settings.keys(**options).values()) == declared, stage.name
        assert f"artifacts/code/{command.stage_name}.json" in [dep.def_path for dep in stage.deps]


def test_a_race_next_to_the_pipeline_shares_its_code(folder: Path) -> None:
    shutil.copy(Path(__file__).parents[2] / "dvc.yaml", folder)
    run.prepare(folder)
    assert not Path("dvc.yaml").read_text(encoding="utf-8").startswith(run.HEAD)
    found = programs(Path("dvc.yaml"))
    assert found["train_arm"] == Path("unequal/race/stages/train_arm.py")
    assert found["check_params"] == Path("stages/check_params.py")


def test_a_further_arm_leaves_all_other_trainings_as_they_are(folder: Path) -> None:
    race = RaceParams.read(TINY).race
    assert race is not None
    fewer = race.model_copy(update={"arms": {name: one for name, one in race.arms.items() if name != "explodes"}})
    before, after = (bracket(one, rungs(one, {}))["trainings"] for one in (fewer, race))
    assert {name: one for name, one in after.items() if "explodes" not in name} == before


@pytest.mark.thorough  # two minutes; its parts are tested by themselves
@pytest.mark.slow
def test_a_race_from_settings_to_recipe(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "run_engine", engine := Engine())
    monkeypatch.setenv(ENGINE, "in-process")
    judged = list(run.carry_out(folder, "dvc", 1))
    assert judged[:3] == ["short", "whole", "finals"]
    standing = json.loads(Path("results/race/standing/short.json").read_text(encoding="utf-8"))
    assert {"explodes_x1_block_100", "explodes_x2_block_100"} <= set(standing["collapsed"])
    assert all(one["fate"] == "collapsed" for one in standing["standing"] if one["arm"] == "explodes")
    assert engine.ran.count("train_arm@short_uniform_x1_block_100") == 1
    before = [BRACKET.read_bytes(), Path("results/race/outcome.json").read_bytes()]

    engine.ran.clear()
    assert list(run.carry_out(folder, "dvc", 1)) == judged
    assert engine.ran == []
    assert [BRACKET.read_bytes(), Path("results/race/outcome.json").read_bytes()] == before

    check_commands(folder)
    edited: dict[str, Any] = yaml.safe_load(Path("params.yaml").read_text(encoding="utf-8"))
    edited["race"]["arms"]["p2"] = {"loss_weight": {"kind": "p2", "gamma": 1.0}}
    Path("params.yaml").write_text(yaml.safe_dump(edited, sort_keys=False), encoding="utf-8")
    engine.ran.clear()
    next(iter(run.carry_out(folder, "dvc", 1)))
    assert {name for name in engine.ran if name.startswith("train_arm")} == {
        "train_arm@short_p2_x1_block_100",
        "train_arm@short_p2_x2_block_100",
    }


def check_commands(folder: Path) -> None:
    """`show` and `adopt` on a race that has ended."""
    shown = CliRunner().invoke(unequal, ["race", "show", str(folder)])
    assert "whole trainings" in shown.output
    assert "collapsed" in shown.output
    recipe = yaml.safe_load(Path("results/race/recipe.yaml").read_text(encoding="utf-8"))
    adopted = CliRunner().invoke(unequal, ["race", "adopt", str(folder)])
    assert adopted.exception is None, adopted.exception
    text = Path("params.yaml").read_text(encoding="utf-8")
    assert "# its learning rate makes the loss infinite" in text
    document = yaml.safe_load(text)
    assert document["recipes"]["base"] == recipe["recipes"]["base"]
    assert document["sampling"] | recipe["sampling"] == document["sampling"]
    again = CliRunner().invoke(unequal, ["race", "adopt", str(folder)])
    assert "has the recipe already" in again.output
    page = Path("results/race/report.html").read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") >= 2
    assert "Best bet:" in page


def started(folder: Path, engine: str) -> "subprocess.Popen[bytes]":
    """`unequal race run` of a folder in a process of its own."""
    words = [sys.executable, "-m", "unequal", "race", "run", str(folder), "--engine", engine]
    return subprocess.Popen(words, cwd=Path(__file__).parents[2], start_new_session=True)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A race that nobody has killed."""
    folder = tmp_path_factory.mktemp("whole")
    shutil.copy(TINY, folder)
    assert started(folder, "dvc").wait() == 0
    return folder


@pytest.mark.thorough
@pytest.mark.timeout(3600)  # two engines run whole races, which take minutes each
@pytest.mark.parametrize("engine", ["snakemake", "dvc"])
def test_a_killed_race_goes_on_to_the_same_bracket(folder: Path, engine: str, whole: Path) -> None:
    process = started(folder, engine)
    while not list(folder.glob("results/race/standing/short.json")):
        assert process.poll() is None
        time.sleep(0.5)
    time.sleep(5)
    for one in family(process.pid):
        one.kill()
    process.wait()
    assert started(folder, engine).wait() == 0
    for name in (BRACKET, Path("results/race/outcome.json")):
        first, second = ((place / name).read_text(encoding="utf-8") for place in (whole, folder))
        assert without_hours(first) == without_hours(second)
    other = "dvc" if engine == "snakemake" else "snakemake"
    times = {path: path.stat().st_mtime_ns for path in folder.glob("artifacts/race/models/*/*/*.safetensors")}
    assert started(folder, other).wait() == 0
    assert {path: path.stat().st_mtime_ns for path in times} == times


def without_hours(text: str) -> Any:
    """A document without what differs between two runs."""
    document = yaml.safe_load(text)
    document.pop("cost_in_hours", None)
    return document
