"""The report of made-up scores whose answers are known."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from html_tables import uneven_tables
from stage_project import write_params

from studies.few_steps.params import Sweep
from studies.few_steps.stages import report_few_steps
from studies.few_steps.stages.report_few_steps import Scores
from unequal.files import read_json, write_json
from unequal.statistics.verdicts import BETTER, SAME, WORSE

PARAMS = yaml.safe_load((Path(__file__).parents[1] / "params.yaml").read_text(encoding="utf-8"))
SWEEP = Sweep.model_validate(PARAMS["sweep"], strict=False)
#: In ln FID against the control; samples scatter by 0.01. On fresh bases they are half as large.
EFFECTS = {"dpm_solver_2m_edm": -0.4, "heun_uniform": 0.5}
CONDITIONS = {"data": "made-up images", "parameters": 400_000, "images": 600_000, "samples_per_seed": 5000}


def scored(way: str, calls: int, generator: np.random.Generator, share: float) -> dict[str, Any]:
    fid = float(np.exp(share * EFFECTS.get(way, 0.0) + 0.01 * generator.normal()) * 100 / calls)
    return {"fid": fid, "calls": calls - 2 * (way == "ddim_edm"), "timesteps": list(range(900, 900 - calls, -1))}


@pytest.fixture
def scores(project: Path) -> Path:
    """A project with all scores."""
    generator = np.random.default_rng(0)
    for calls in SWEEP.calls:
        for block in SWEEP.blocks:
            share = 0.5 if block in SWEEP.fresh else 1.0
            ways = {way: scored(way, calls, generator, share) for way in (*SWEEP.ways, SWEEP.repeated)}
            of_block = {"block": block, "calls": calls, "ways": ways, "conditions": CONDITIONS}
            write_json(project / f"results/scores/calls_{calls}/block_{block}.json", of_block)
    write_params(**{name: PARAMS[name] for name in ("subject", "schedule", "sweep")})
    return project


def test_ways_are_judged_against_the_control_with_as_many_calls(scores: Path) -> None:
    found = Scores.read(scores / "results/scores", SWEEP)
    words = dict.fromkeys((*SWEEP.compared, SWEEP.repeated), SAME) | {
        "dpm_solver_2m_edm": BETTER,
        "heun_uniform": WORSE,
    }
    for judged in map(found.family, SWEEP.calls):
        assert {way: one.word for way, one in judged.items()} == words
        assert judged["heun_uniform"].change == pytest.approx(np.expm1(0.5), abs=0.05)
    assert {found.first(calls) for calls in SWEEP.calls} == {"dpm_solver_2m_edm"}


def test_fresh_bases_say_what_they_show(scores: Path) -> None:
    found = Scores.read(scores / "results/scores", SWEEP)
    assert {found.confirmed(calls).word for calls in SWEEP.calls} == {BETTER}
    assert found.confirmed(7).change == pytest.approx(np.expm1(-0.2), abs=0.02)


def test_the_page_shows_calls_that_were_left_out(scores: Path) -> None:
    result = CliRunner().invoke(report_few_steps.main, [])
    assert result.exit_code == 0, result.output
    page = (scores / "results/report.html").read_text(encoding="utf-8")
    assert uneven_tables(page) == []
    assert "(29)" in page  # of 31 by DDIM along EDM's spacing
    assert {one.stem for one in (scores / "results/pictures").iterdir()} == {"calls"}
    assert read_json(scores / "results/findings.json")["confirmed"]["15"]["way"] == "dpm_solver_2m_edm"
    with (scores / "results/scores.csv").open(encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == len(SWEEP.calls) * len(SWEEP.blocks) * (len(SWEEP.ways) + 1)
