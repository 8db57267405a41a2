"""The report of made-up scores whose answers are known."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from html_tables import uneven_tables
from stage_project import write_params

from studies.few_steps.stages import report_few_steps
from studies.few_steps.stages.report_few_steps import Scores
from unequal.comparison.settings import Comparison
from unequal.runtime.files import read_json, write_json
from unequal.settings.strict import read_yaml, validate
from unequal.statistics.verdicts import BETTER, SAME, WORSE

PARAMS = read_yaml(Path(__file__).parents[1] / "params.yaml")
PLAN = validate(Comparison, PARAMS["comparison"], Path("params.yaml"))
#: In ln FID against the control; samples scatter by 0.01. On fresh bases they are half as large.
EFFECTS = {"dpm_solver_2m_edm": -0.4, "heun_uniform": 0.5}
CONDITIONS = {"data": "made-up images", "parameters": 400_000, "images": 600_000, "samples_per_seed": 5000}


def scored(way: str, calls: int, generator: np.random.Generator, share: float) -> dict[str, Any]:
    fid = float(np.exp(share * EFFECTS.get(way, 0.0) + 0.01 * generator.normal()) * 100 / calls)
    return {"endpoints": {"fid": fid}, "scores": {"kid": 0.1}, "costs": {"calls_made": calls - 2 * (way == "ddim_edm")}}


@pytest.fixture
def scores(project: Path) -> Path:
    """A project with all scores."""
    generator = np.random.default_rng(0)
    for calls in PARAMS["calls"]:
        for block in (*PLAN.seeds, *PLAN.confirm.seeds):
            share = 0.5 if block in PLAN.confirm.seeds else 1.0
            ways = {way: scored(way, calls, generator, share) for way in PLAN.arms.all}
            of_block = {"block": block, "calls": calls, "ways": ways, "conditions": CONDITIONS}
            write_json(project / f"results/scores/calls_{calls}/block_{block}.json", of_block)
    write_params(**{name: PARAMS[name] for name in ("schedule", "comparison", "calls")})
    return project


def test_ways_are_judged_against_the_control_with_as_many_calls(scores: Path) -> None:
    for calls in PARAMS["calls"]:
        found = Scores.read(scores / "results/scores", calls, PLAN)
        words = {one.arm: verdict.word for one, verdict in found.family.verdicts.items()}
        assert words == dict.fromkeys((one.arm for one in PLAN.compared), SAME) | {
            "dpm_solver_2m_edm": BETTER,
            "heun_uniform": WORSE,
        }
        assert len(words) == 17 and found.family.repeated.word == SAME
        (worse,) = (one for one in found.family.verdicts.values() if one.word == WORSE)
        assert worse.change == pytest.approx(np.expm1(0.5), abs=0.05)


def test_fresh_bases_say_what_they_show(scores: Path) -> None:
    found = Scores.read(scores / "results/scores", 7, PLAN)
    assert {one["first"]["arm"] for one in found.pairs} == {"dpm_solver_2m_edm"}
    assert found.confirmed["fid"].word == BETTER
    assert found.confirmed["fid"].change == pytest.approx(np.expm1(-0.2), abs=0.02)


def test_the_page_is_written(scores: Path) -> None:
    result = CliRunner().invoke(report_few_steps.main, [])
    assert result.exit_code == 0, result.output
    page = (scores / "results/report.html").read_text(encoding="utf-8")
    assert uneven_tables(page) == []
    assert {one.stem for one in (scores / "results/pictures").iterdir()} == {"calls"}
    assert read_json(scores / "results/findings.json")["confirmed"]["15"]["way"] == "dpm_solver_2m_edm"
    with (scores / "results/scores.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(PARAMS["calls"]) * 5 * 19
    assert {row["calls_made"] for row in rows if row["way"] == "ddim_edm"} == {
        "5",
        "13",
        "29",
    }
