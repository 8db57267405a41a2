"""Images for the same FID, of made-up curves whose distance is known."""

from typing import Any

import numpy as np
import pytest
from blocks_data import design, write_trainings
from click.testing import CliRunner
from stage_project import write_params

from unequal.comparison.judgement import families
from unequal.comparison.results import read_results
from unequal.comparison.settings import images_for
from unequal.comparison.speed import piloted, with_all_images, with_images
from unequal.comparison.stages import judge_pilot
from unequal.comparison.tables import speed_table
from unequal.runtime.files import read_json, write_json
from unequal.statistics.verdicts import BETTER, SAME, WORSE

SPEED = {"baseline": "control", "delta": 0.2}
IMAGES = images_for("fid")
#: How many times as fast as the control's arms are.
FACTORS = {"control": 1.0, "again": 1.0, "lower": 2.0, "alike": 1.05, "other": 0.5, "base": 1.0}
POINTS = (100, 200, 300, 400)


def path(factor: float, level: float = 0.0, slope: float = -0.5) -> list[dict[str, Any]]:
    """FID e^level·(factor·n)^slope after n images."""
    return [{"images": n, "fid": float(np.exp(level) * (factor * n) ** slope), "curve": [1.0, 1.0]} for n in POINTS]


def training(factor: float, level: float = 0.0, slope: float = -0.5) -> dict[str, Any]:
    return {"endpoints": {"fid": 1.0}, "path": path(factor, level, slope)}


def test_a_bias_of_all_fids_that_grows_with_them_moves_no_shift():
    """Any rising function of FID leaves where two curves are level; here a power, as on an axis of its own."""
    one, other = training(1.7), training(1.0)
    plain = with_images(one, other, "fid")["endpoints"][IMAGES]
    for each in (one, other):
        for point in each["path"]:
            point["fid"] = 3 * point["fid"] ** 1.4
    assert with_images(one, other, "fid")["endpoints"][IMAGES] == pytest.approx(plain)


def test_an_arm_that_never_comes_to_where_its_control_begins_is_bounded():
    found = with_all_images({"control": {0: training(1.0)}, "lost": {0: training(1.0, level=9.0)}}, "control", ["fid"])
    assert found["lost"][0]["endpoints"][IMAGES] == pytest.approx(POINTS[-1] / POINTS[0])


def test_in_a_pilot_a_doubling_is_worth_a_doubling():
    tries = {name: training(factor) | {"half": {"fid": 2.0}} for name, factor in (("own", 1.0), ("twice", 2.0))}
    found = piloted(tries, tries["own"], "fid")
    for one, images in (("own", 1.0), ("twice", 0.5)):
        assert found[one]["endpoints"][IMAGES] == pytest.approx(images)
        assert found[one]["half"] == {"fid": 2.0, IMAGES: pytest.approx(2 * images)}


@pytest.fixture
def trainings(project):
    folder, generator = project / "results/endpoints", np.random.default_rng(1)
    write_trainings(folder, design())
    for file in sorted(folder.rglob("*.json")):
        one = read_json(file)
        level = one["block"] + 0.01 * generator.normal()
        write_json(file, one | {"path": path(FACTORS[one["arm"]], level)})
    return folder


def test_speed_is_judged_like_any_endpoint(trainings):
    found = read_results(trainings, design(speed=SPEED))
    (family,) = (one for one in families(found) if one.endpoint == IMAGES)
    words = {comparison.arm: finding.word for comparison, finding in family.verdicts.items()}
    assert words == {"lower": BETTER, "alike": SAME, "other": WORSE}
    change = {comparison.arm: finding.change for comparison, finding in family.verdicts.items()}
    assert change["lower"] == pytest.approx(-0.5, abs=0.05)
    rows = {row[0]: row[1] for row in speed_table(found, "control", "fid").rows}
    assert float(rows["lower"].split()[0]) == pytest.approx(2, abs=0.1)


def test_a_pilot_bounds_the_scatter_of_speed(project):
    tries = {"own": {}, "half": {"lr": 5e-4}}
    pilot: dict[str, Any] = {"arms": {"fresh": ["control", "lower"], "continued": []}, "tries": tries}
    pilot |= {"seeds": [7, 8], "share": 0.5, "chosen": {}}
    write_params(comparison=design(speed=SPEED).model_dump(mode="json"), pilot=pilot)
    generator = np.random.default_rng(2)
    costs = {"images": 400, "training_seconds": 1.0, "measuring_seconds": 1.0}
    for arm in pilot["arms"]["fresh"]:
        for block in pilot["seeds"]:
            found = {}
            for label in pilot["tries"]:
                made = path(FACTORS[arm], 0.01 * generator.normal())
                scores = {"loss_over_timesteps": 1.0 + 0.01 * generator.random(), "fid": made[-1]["fid"]}
                half = {"loss_over_timesteps": 1.1, "fid": made[1]["fid"]}
                found[label] = {"endpoints": scores, "half": half, "lr": 1e-3, "costs": costs, "path": made}
            write_json(
                project / f"results/pilot/{arm}/block_{block}.json", {"arm": arm, "block": block, "tries": found}
            )
    result = CliRunner().invoke(judge_pilot.main, [])
    assert result.exit_code == 0, result.output
    pilot = read_json(project / "results/pilot.json")
    # ln FID scatters by 0.01 and falls half as fast as ln images rise: twice that in ln images.
    assert pilot["endpoints"][IMAGES]["slope_per_doubling"] == pytest.approx(-np.log(2))
    assert 0.002 < pilot["endpoints"][IMAGES]["deviation"] < 0.1
