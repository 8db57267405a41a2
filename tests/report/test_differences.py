"""Differences of endpoints and their resolution, against closed forms and simulation."""

import math

import numpy as np
import pytest

from unequal.diffusion.schedule import NoiseSchedule
from unequal.measures.loss_profile import Errors, endpoints
from unequal.report.comparisons import difference_of, fid_differences, loss_differences


def test_the_difference_of_fid_is_that_of_its_logarithms() -> None:
    (found,) = fid_differences({"a": [2.0, 8.0], "b": [1.0, 4.0]}, [("a", "b")])
    assert found is not None
    # Both are four times as high at the second seed: nothing scatters.
    assert (found.log_ratio, found.resolution) == pytest.approx((math.log(2), 0), abs=1e-12)


def test_two_variants_at_two_seeds_resolve_by_students_t() -> None:
    (found,) = fid_differences({"a": [1.0, 1.0], "b": [1.0, math.exp(0.2)]}, [("a", "b")])
    assert found is not None
    # Differences 0 and −0.2: their mean's error is 0.1, with one degree of freedom; t = 12.706.
    assert (found.log_ratio, found.resolution) == pytest.approx((-0.1, 1.2706), rel=1e-4)


def test_variants_without_a_difference_are_seldom_distinguishable() -> None:
    drawn = np.exp(0.1 * np.random.default_rng(0).standard_normal((500, 6, 2)))
    names = "abcdef"
    runs = [fid_differences({name: list(row[i]) for i, name in enumerate(names)}, [("a", "b")]) for row in drawn]
    assert np.mean([one is not None and one.distinguishable for (one,) in runs]) <= 0.07


def test_one_seed_resolves_nothing() -> None:
    (found,) = fid_differences({"a": [2.0], "b": [1.0]}, [("a", "b")])
    assert found is not None
    assert (found.log_ratio, found.resolution) == (math.log(2), None)


def test_a_fid_of_zero_has_no_relative_difference() -> None:
    scores = {"a": [0.0, 1.0], "b": [1.0, 1.1], "c": [2.0, 2.1]}
    found = fid_differences(scores, [("a", "b"), ("c", "b")])
    assert found[0] is None
    assert found[1] is not None
    assert fid_differences({"a": [0.0], "b": [1.0]}, [("a", "b")]) == [None]
    assert fid_differences({}, []) == []


def test_a_change_of_every_error_is_one_of_every_endpoint() -> None:
    schedule, random = NoiseSchedule.named("linear", 40), np.random.default_rng(0)
    control = Errors(random.uniform(0.1, 2, (40, 8)), random.uniform(0.1, 2, (40, 8)))
    method = Errors(0.98 * control.epsilon, 0.9 * control.x0)
    found = loss_differences(endpoints(schedule), {"a": method, "b": control}, "a", "b")
    assert {name: math.exp(one.log_ratio) for name, one in found.items()} == pytest.approx(
        {"loss_over_timesteps": 0.98, "loss_over_log_snr": 0.98, "x0_loss_over_log_snr": 0.9}
    )
    # What both find hard cancels.
    assert [one.resolution for one in found.values()] == pytest.approx([0, 0, 0], abs=1e-12)
    assert loss_differences(endpoints(schedule), {"b": control}, "a", "b") == {}


def test_changes_become_logarithms() -> None:
    """d ln r = dr/r, at 1.96 standard errors."""
    assert difference_of(-0.5, 0.01)[:2] == pytest.approx((math.log(0.5), 1.95996 * 0.02), rel=1e-5)
