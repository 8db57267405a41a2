"""A study's words, from the files of its trainings alone."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from blocks_data import design, write_trainings
from click.testing import CliRunner, Result
from html_tables import uneven_tables
from one_line import refusal
from piloted import pilot_figures, textbook_effect, write_pilot
from scipy import stats
from stage_project import write_params

from unequal.comparison.judgement import families, family
from unequal.comparison.results import file_of, read_results
from unequal.comparison.stages import report as report_stage
from unequal.comparison.tables import answer, scattering
from unequal.report.formatting import label
from unequal.runtime.files import read_json, write_json
from unequal.statistics.power import Design, upper_deviation
from unequal.statistics.verdicts import BETTER, NOT_TESTABLE, SAME, WORSE

TESTS = {"lower": "pooled", "alike": "paired", "other": "welch"}


@pytest.fixture
def trainings(project):
    write_trainings(project / "results/endpoints", design())
    return project / "results/endpoints"


def change(file: Path, **facts: Any) -> None:
    write_json(file, read_json(file) | facts)


def scale(file: Path, factor: float) -> None:
    """Multiply a training's FID."""
    endpoints = read_json(file)["endpoints"]
    change(file, endpoints=endpoints | {"fid": factor * endpoints["fid"]})


def test_words_are_those_of_the_known_answers(trainings):
    for one in families(read_results(trainings, design())):
        words = {comparison.arm: finding.word for comparison, finding in one.verdicts.items()}
        assert words == {"lower": BETTER, "alike": SAME, "other": WORSE}
        assert one.repeated.word == SAME
        assert max(one.visible.values()) < one.delta


def test_a_block_as_hard_as_may_be_changes_no_estimate_but_welchs(trainings):
    plan = design(comparisons=[{"arm": arm, "control": "control", "test": test} for arm, test in TESTS.items()])
    before = family(read_results(trainings, plan), "fid")
    for arm in plan.arms.all:
        scale(trainings / f"{arm}/block_0.json", 7)
    after = family(read_results(trainings, plan), "fid")
    for one in before.verdicts:
        assert after.verdicts[one].change == pytest.approx(before.verdicts[one].change)
        same = after.verdicts[one].high == pytest.approx(before.verdicts[one].high)
        assert same == (one.test != "welch")


def test_beside_the_pooled_interval_stands_that_of_students_pairs(trainings):
    found = read_results(trainings, design())
    judged = family(found, "fid")
    for one, ends in judged.alone.items():
        arm, control = found.logarithms("fid", one.arms)
        assert np.log1p(ends) == pytest.approx(stats.ttest_rel(arm, control).confidence_interval(0.95))


def test_an_arm_that_scatters_otherwise_than_the_rest_is_named(trainings):
    assert not family(read_results(trainings, design()), "fid").unlike
    for block, factor in enumerate((0.8, 1.2, 0.9, 1.3, 0.7)):
        scale(trainings / f"lower/block_{block}.json", factor)
    judged = family(read_results(trainings, design()), "fid")
    assert list(judged.unlike) == ["lower"]
    assert "more than twice as much in: lower (" in scattering(judged)


def test_of_what_a_study_cannot_see_nothing_is_said(trainings):
    _, fid = families(read_results(trainings, design(endpoints={"loss_over_timesteps": 0.001, "fid": 0.001})))
    for comparison, one in fid.verdicts.items():
        assert fid.visible[comparison] > fid.needed
        assert (one.word != NOT_TESTABLE) == (abs(np.log1p(one.change)) >= fid.visible[comparison])
    assert {one.word for one in fid.verdicts.values()} == {BETTER, NOT_TESTABLE, WORSE}
    # A claim of twice what is seen can be tested, whatever counts as the same.
    _, asked = families(read_results(trainings, design(effects={"fid": 2 * max(fid.visible.values())})))
    assert {one.word for one in asked.verdicts.values()} == {BETTER, SAME, WORSE}


def test_the_answer_names_the_largest_gain_or_says_that_there_is_none(trainings):
    losses, fid = families(read_results(trainings, design()))
    best = min((one.change, pair.arm) for pair, one in fid.verdicts.items() if one.word == BETTER)
    assert answer(fid).startswith(f"By FID, {label(best[1])} is better than its control ")
    nothing = replace(losses, verdicts={pair: replace(one, word=SAME) for pair, one in losses.verdicts.items()})
    assert answer(nothing).endswith("no variant is better than its control.")


def test_a_block_whose_arms_were_measured_otherwise_is_refused(trainings):
    change(trainings / "alike/block_3.json", conditions={"data": "digits, made up", "device": "cpu"})
    assert "block 3: its variants differ in extractor; measure it again" in refusal(read_results, trainings, design())
    # A block that was measured elsewhere as a whole is one like others.
    for arm in design().arms.all:
        change(trainings / f"{arm}/block_3.json", conditions={"extractor": "another"})
    assert read_results(trainings, design()).logarithms("fid", ["lower"]).shape == (1, 5)


def write_settings() -> None:
    write_params(comparison=design().model_dump(mode="json"), schedule={"name": "linear", "timesteps": 50}, recipes={})
    for folder in ("trainings", "confirm"):
        Path("results", folder).mkdir(parents=True)


def report() -> Result:
    return CliRunner().invoke(report_stage.main, [])


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        ('{"arm": "low', "not valid JSON"),
        ({"endpoints": {"loss_over_timesteps": 0.0, "fid": 1.0}}, "endpoints.loss_over_timesteps: 0.0"),
        ({"endpoints": {"loss_over_timesteps": 1.0, "fid": float("nan")}}, "endpoints.fid"),
        ({"costs": {"images": 100}}, "costs.training_flops"),
    ],
)
def test_a_file_of_a_training_that_cannot_be_is_refused_in_a_line(trainings, damage, complaint):
    file = trainings / file_of("lower", 0)
    file.write_text(damage if isinstance(damage, str) else json.dumps(read_json(file) | damage))
    write_settings()
    write_pilot(Path("results"), *design().endpoints)
    refused_in_a_line(report(), f"lower/block_0.json: .*{complaint}")


NEGATIVE = json.dumps(pilot_figures("fid", upper_deviation=-1.0))


@pytest.mark.parametrize("damage", ["{", '{"endpoints": []}', NEGATIVE])
def test_a_pilot_that_cannot_be_is_refused_in_a_line(trainings, damage):
    write_settings()
    Path("results/pilot.json").write_text(damage)
    refused_in_a_line(report(), "results/pilot.json: ")


def refused_in_a_line(result: Result, pattern: str) -> None:
    assert result.exit_code == 1, result.output
    assert re.fullmatch(f"report: .*{pattern}.*\n", result.output), result.output
    assert not Path("results/findings.json").exists()
    assert not Path("results/report.html").exists()


def test_the_page_says_what_was_judged(trainings):
    write_settings()
    write_pilot(Path("results"), *design().endpoints)
    result = report()
    assert result.exit_code == 0, result.output
    page = Path("results/report.html").read_text(encoding="utf-8")
    assert uneven_tables(page) == []
    assert "On pictures, made up, with a network of 100 parameters; control is trained with 1.40 k images" in page
    assert "Real images, training against held-out, have a FID of 0.123." in page
    # 25 trainings of 6 and 1 seconds.
    assert "2.5 min of training on cpu, 25 s of measuring" in page
    with Path("results/rows/curves.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["arm"] == "lower"]
    # Made-up curves are level at the FID of their training.
    assert [(row["first"], row["last"]) for row in rows] == [("0", "1"), ("2", "3"), ("4", "7")]
    fid = read_results(trainings, design()).logarithms("fid", ["lower"])
    assert [np.log(float(row["loss"])) for row in rows] == pytest.approx([fid.mean()] * 3)
    assert float(rows[0]["log_sd"]) == pytest.approx(fid.std(ddof=1))
    changes = fid - read_results(trainings, design()).logarithms("fid", ["control"])
    assert float(rows[0]["log_change"]) == pytest.approx(changes.mean())
    assert float(rows[0]["log_change_stderr"]) == pytest.approx(stats.sem(changes[0]))
    assert "lower against control" in page
    document = json.loads(Path("results/findings.json").read_text())
    assert document["blocks"] == [0, 1, 2, 3, 4]
    compared = document["endpoints"]["fid"]["comparisons"]["lower against control"]
    assert compared["word"] == BETTER
    assert compared["change"] == pytest.approx(np.expm1(-0.1), abs=0.01)
    markdown = Path("results/tables/fid.md").read_text(encoding="utf-8")
    assert f"{100 * compared['change']:.2f} %".replace("-", "−") in markdown
    assert "the same within 2.00 %" in markdown
    # Quality is drawn against cost where costs differ; here all cost the same.
    assert not Path("results/pictures/cost.png").exists()
    for block in design().seeds:
        file = trainings / file_of("lower", block)
        change(file, costs=read_json(file)["costs"] | {"training_flops": 12})
    assert report().exit_code == 0
    assert Path("results/pictures/cost.png").exists()


def test_what_can_be_detected_goes_by_the_scatter_of_the_trainings(trainings):
    found = read_results(trainings, design())
    family = families(found)[1]
    # Residuals of four arms in five blocks, and the t distribution's own formula for what they see.
    (lower,) = (one for one in family.visible if one.arm == "lower")
    values = found.logarithms("fid", found.plan.pooled_arms)
    residuals = values - values.mean(0) - values.mean(1, keepdims=True) + values.mean()
    deviation = float(np.sqrt((residuals**2).sum() / 12))
    expected = upper_deviation(deviation, 12) * textbook_effect(Design(4, 5, 3))
    assert family.visible[lower] == pytest.approx(expected, rel=0.25)
    # Two arms alone know their scatter by four degrees of freedom, and see less by it.
    (other,) = (one for one in family.visible if one.arm == "other")
    apart = np.diff(found.logarithms("fid", other.arms), axis=0).std(ddof=1) / 2**0.5
    expected = upper_deviation(float(apart), 4) * textbook_effect(Design(2, 5, 3))
    assert family.visible[other] == pytest.approx(expected, rel=0.25)
