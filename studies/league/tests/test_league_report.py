"""The league's order, what fresh seeds say of the first, and the page, of made-up trainings whose answers are known."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from html_tables import uneven_tables
from piloted import write_pilot
from stage_project import write_params

from studies.league.stages import name_first, report_league
from studies.league.standings import First, first, standings
from studies.league.tables import told_weight
from unequal.comparison.confirmation import confirmed, read_again
from unequal.comparison.results import Found, read_found
from unequal.comparison.settings import Comparison
from unequal.errors import UserError
from unequal.files import read_json, write_json
from unequal.report.effective_weighting import Emphasis
from unequal.statistics.verdicts import BETTER, UNDECIDED

PARAMS = yaml.safe_load((Path(__file__).parents[1] / "dit/params.yaml").read_text(encoding="utf-8"))
PLAN = Comparison.model_validate(PARAMS["blocks"] | {"arms": tuple(PARAMS["blocks"]["arms"])}, strict=False)
#: In ln(endpoint) against the control; trainings scatter by 0.003.
EFFECTS = {"info_noise": -0.2, "logit_normal": 0.1, "adaptive": -0.01}
FRESH = PARAMS["confirmation"]["seeds"]
#: What trainings came to: all of the weight of one lies at one timestep.
LEARNED = {"info_noise": {"emphasis": {"density": np.eye(1000)[500].tolist(), "importance": [1.0] * 1000}}}


def training(arm: str, block: int, effect: float, generator: np.random.Generator) -> dict[str, Any]:
    costs = dict.fromkeys(("images", "training_flops", "sampling_flops", "parameters"), 300)
    return {
        "arm": arm,
        "block": block,
        "made_by": arm,
        "endpoints": {name: float(np.exp(effect + 0.003 * generator.normal())) for name in PLAN.endpoints},
        "scores": {},
        "costs": costs,
        "curve": {"timesteps": [1000], "first": [0, 300, 700], "loss": [1.0, 1.0, 1.0]},
        "conditions": {"data": "made-up images"},
    }


@pytest.fixture
def league(project: Path) -> Path:
    """A project with all trainings; on fresh seeds the first is better by half of what the league has shown."""
    generator = np.random.default_rng(0)
    for arm in PLAN.arms:
        for block in PLAN.seeds:
            told = training(arm, block, EFFECTS.get(arm, 0.0), generator)
            write_json(project / f"results/endpoints/{arm}/block_{block}.json", told)
            write_json(project / f"results/trainings/{arm}/block_{block}.json", LEARNED.get(arm, {}))
    for block in FRESH:
        pair = {"first": ("info_noise", -0.1), "control": ("uniform", 0.0)}
        told = {place: training(arm, block, effect, generator) for place, (arm, effect) in pair.items()}
        write_json(project / f"results/again/block_{block}.json", told)
    write_pilot(project / "results", *PARAMS["blocks"]["endpoints"])
    keys = ("subject", "blocks", "effects", "pilot", "schedule", "recipes", "confirmation")
    write_params(**{name: PARAMS[name] for name in keys})
    assert CliRunner().invoke(name_first.main, []).exit_code == 0
    return project


def found(project: Path) -> Found:
    return read_found(project / "results/endpoints", PLAN)


def test_arms_stand_by_their_first_endpoint(league: Path) -> None:
    order = standings(found(league))
    assert [arm for arm, _ in order] == ["info_noise", "adaptive", "uniform", "logit_normal"]
    assert order[0][1] == pytest.approx(np.exp(-0.2), rel=0.01)
    named = First.load(league / "results/first.json").first
    assert named.arm == first(found(league)) == "info_noise"
    # With the rate of the try that was chosen for it.
    assert named.recipe.optimizer.lr == PARAMS["pilot"]["tries"][PARAMS["pilot"]["chosen"]["others"]]["lr"]


def test_fresh_seeds_say_what_they_show_and_not_what_the_league_did(league: Path) -> None:
    again = read_again(league / "results/again", First.load(league / "results/first.json").arms, FRESH, PLAN)
    told = confirmed(found(league), again)["fid"]
    assert told.word == BETTER
    assert told.change == pytest.approx(np.expm1(-0.1), abs=0.01)
    # Pairs that scatter more than the league's trainings speak for themselves.
    for number, block in enumerate(again):
        block["first"]["endpoints"]["fid"] *= np.exp(0.3 * (number - 1))
    assert confirmed(found(league), again)["fid"].word == UNDECIDED


def test_fresh_blocks_of_another_first_are_refused(league: Path) -> None:
    named = read_json(league / "results/first.json")
    write_json(league / "results/first.json", named | {"first": named["first"] | {"arm": "adaptive"}})
    with pytest.raises(UserError, match=r"block_200\.json: tells of 'info_noise', first is 'adaptive'; train"):
        read_again(league / "results/again", First.load(league / "results/first.json").arms, FRESH, PLAN)


def test_the_middle_half_of_a_weight_is_told_from_the_noise_end() -> None:
    log_snr = np.array([4.0, 2.0, 0.0, -2.0, -4.0])
    density = np.full(5, 0.2)
    assert told_weight(Emphasis("even", density, np.ones(5)), log_snr) == "0.0 (−2.0 … 2.0)"
    assert told_weight(Emphasis("hidden", density, None), log_snr) == "learned"
    assert told_weight(Emphasis("made", density, None, "by conflicts"), log_snr) == "by conflicts"


def test_the_page_has_one_table_and_one_picture_of_all(league: Path) -> None:
    result = CliRunner().invoke(report_league.main, [])
    assert result.exit_code == 0, result.output
    page = (league / "results/report.html").read_text(encoding="utf-8")
    assert uneven_tables(page) == []
    assert "1. info noise" in page
    assert "<td>0.0 (0.0 … 0.0)" in page.replace("−", "")
    assert "On fresh seeds: info noise against uniform" in page
    assert (league / "results/pictures/league.png").exists()
    with (league / "results/confirmation.csv").open(encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == 2 * len(FRESH) * len(PLAN.endpoints)
    findings = read_json(league / "results/findings.json")
    assert findings["endpoints"].keys() == findings["confirmed"].keys() == PLAN.endpoints.keys()
    assert f">{findings['confirmed']['fid']['word']}<" in page.split("On fresh seeds: info noise")[1]
