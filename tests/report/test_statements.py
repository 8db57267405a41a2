"""Sentences of a run and their file; statements of the base and its losses, on made-up figures."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unequal.evaluation.loss_profile import LossProfile
from unequal.report.figures import TrainingCurve
from unequal.report.pipeline_statements import Readiness, final_slope, spread_of_losses
from unequal.report.statements import Difference, Section, Statement, findings_document

logarithms = st.floats(-3, 3)


def test_a_difference_is_written_in_percent_with_its_interval() -> None:
    # e^ln(0.75) − 1 = −25 %, from 0.75/1.2 to 0.75 · 1.2.
    found = Difference(math.log(0.75), math.log(1.2))
    assert found.text() == "−25.0 % (−37.5 to −10.0 %)"
    assert Difference(0.05, 0.06).text() == "+5.1 % (−1.0 to +11.6 %, not distinguishable)"
    assert Difference(0.05, None).text() == "+5.1 % (interval unknown, not distinguishable)"
    assert found.percents() == pytest.approx({"change": -25, "low": -37.5, "high": -10})


@given(logarithms, st.floats(0, 3))
def test_two_models_are_distinguishable_where_the_interval_leaves_out_none(log_ratio: float, resolution: float) -> None:
    found = Difference(log_ratio, resolution)
    assert found.interval is not None
    low, high = found.interval
    assert found.distinguishable == (low > 0 or high < 0)
    assert Difference(-log_ratio, resolution).distinguishable == found.distinguishable


def test_the_file_has_all_numbers_flat_on_top() -> None:
    sections = [Section("What?", "lead", [Statement("mixed", "text", {"fid": 1.5}, "mixed"), Statement("other", "so")])]
    document = findings_document(sections)
    assert {name: one for name, one in document.items() if not isinstance(one, list)} == {"mixed_fid": 1.5}
    assert document["sections"][0]["statements"][0] == {"key": "mixed", "subject": "mixed", "text": "text"}
    json.dumps(document, allow_nan=False)


def said(base: Readiness) -> str:
    return " ".join(one.text for one in base.statements())


def power_law(exponent: float, lines: int = 20) -> TrainingCurve:
    images = np.linspace(5000, 100_000, lines)
    return TrainingCurve(images, images**exponent, images)


@given(st.floats(-1.5, 0.5))
def test_the_slope_of_a_power_law_is_its_exponent(exponent: float) -> None:
    # ln(n^k) = k·ln 2·log₂ n
    assert final_slope(power_law(exponent)) == pytest.approx(exponent * math.log(2), abs=1e-9)


def test_slopes_go_by_the_second_half_of_two_lines_or_more() -> None:
    images = np.arange(1.0, 11)
    falling = TrainingCurve(images, np.where(images < 5, 100 / images, 1.0), images)
    assert final_slope(falling) == pytest.approx(0)
    for few in ([], [100.0]):
        assert final_slope(TrainingCurve(*[np.array(few)] * 3)) is None


def test_a_trained_base_is_ready() -> None:
    # By logarithms: noise has covered nothing of the way, real images all.
    assert [Readiness(fid, 400, 4, None).covered for fid in (400, 4, 40)] == pytest.approx([0, 1, 0.5])
    base = Readiness(0.268, 25.2, 0.135, math.log(0.88))
    assert base.ready
    assert base.covered == pytest.approx(0.87, abs=0.005)
    for text in (
        "FID 0.268 (noise 25.2, real images 0.135)",
        "the training loss fell by 12 % per doubling of images at the end",
        "1.99 × that of real images",
    ):
        assert text in said(base)
    assert "no headroom" not in said(base)


def test_a_base_of_a_hundred_steps_is_not() -> None:
    """800 photographs, and a log of two lines: the loss has fallen to a third from the one to the other."""
    curve = TrainingCurve(np.array([6400.0, 12800.0]), np.array([0.51, 0.17]), np.ones(2))
    base = Readiness(342.0, 371.0, 61.0, final_slope(curve))
    assert not base.ready
    first = base.statements()[0].text
    assert "FID 342 (noise 371, real images 61.0), 5 % of the way" in first
    assert "the training loss fell by 67 % per doubling of images at the end, more than 25 %" in first
    assert "Until it is, no method is recommended." in first


@pytest.mark.parametrize(("fid", "slope"), [(41, 0.0), (5, math.log(0.74))])
def test_either_fault_is_enough(fid: float, slope: float) -> None:
    base = Readiness(fid, 400, 4, slope)
    assert len(base.faults) == 1
    assert Readiness(39, 400, 4, math.log(0.76)).ready


@pytest.mark.parametrize("ends", [(4, 4), (3, 4), (0, 0)])
def test_features_that_see_no_noise_give_no_scale(ends: tuple[float, float]) -> None:
    base = Readiness(4, *ends, None)
    assert not base.ready
    assert len(base.statements()) == 1
    assert "covered_percent" not in base.figures()


def test_losses_differ_by_their_ratio_with_its_error() -> None:
    found = spread_of_losses(LossProfile(np.array([10.0, 1.0, 0.01]), np.array([0.1, 0.1, 0.0001])))
    # Both have a relative error of 1 %: √2 % of 1000, to the place of the third digit.
    assert found.text == "The base's training loss at t = 0 is 1,000 ± 10 times its loss at t = 2."
    assert found.figures == pytest.approx(
        {"ratio": 1000, "ratio_stderr": 10 * 2**0.5, "largest_at": 0, "smallest_at": 2}
    )
