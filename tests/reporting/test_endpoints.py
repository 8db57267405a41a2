"""Differences of endpoints and their resolution, against closed forms and simulation."""

import math

import numpy as np
import pytest

from unequal.measures.loss_profile import relative_change
from unequal.reporting.endpoints import (
    Loss,
    fid_differences,
    held_out_losses,
    loss_differences,
    unpaired_difference,
)


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


def test_variants_without_a_difference_are_seldom_told_apart() -> None:
    drawn = np.exp(0.1 * np.random.default_rng(0).standard_normal((500, 6, 2)))
    names = "abcdef"
    runs = [fid_differences({name: list(row[i]) for i, name in enumerate(names)}, [("a", "b")]) for row in drawn]
    assert np.mean([one is not None and one.told_apart for (one,) in runs]) <= 0.07


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


def test_endpoints_are_those_that_were_measured() -> None:
    figures = {"mean_train": 1.0, "loss_over_log_snr": 2.0, "loss_over_log_snr_stderr": 0.1, "loss_over_timesteps": 3.0}
    found = held_out_losses(figures)
    assert found == {"loss_over_timesteps": Loss(3.0, None), "loss_over_log_snr": Loss(2.0, 0.1)}


def test_the_same_draws_resolve_more_than_two_means() -> None:
    random = np.random.default_rng(0)
    control = random.uniform(0.1, 2, (30, 16))
    method = 0.98 * control * random.uniform(0.99, 1.01, control.shape)
    draws = {name: {"train": losses, "holdout": losses} for name, losses in (("a", method), ("b", control))}
    found = loss_differences(draws, {}, "a", "b")["loss_over_timesteps"]
    change, stderr = relative_change(control, method)
    assert math.expm1(found.log_ratio) == pytest.approx(change)
    assert found.resolution == pytest.approx(1.96 * stderr / (1 + change), rel=1e-4)
    assert found.told_apart
    errors = [losses.std(1, ddof=1) / 4 for losses in (method, control)]
    means = [Loss(losses.mean(), np.hypot.reduce(e) / 30) for losses, e in zip((method, control), errors, strict=True)]
    assert not unpaired_difference(*means).told_apart


def test_endpoints_that_one_of_two_lacks_are_left_out() -> None:
    figures = {"a": {"loss_over_log_snr": Loss(1.0, 0.1), "x0_loss_over_log_snr": Loss(1, 1)}, "b": {}}
    assert loss_differences({}, figures, "a", "b") == {}
    figures["b"] = {"loss_over_log_snr": Loss(2.0, 0.1)}
    found = loss_differences({}, figures, "a", "b")
    assert list(found) == ["loss_over_log_snr"]
    # √(0.1² + 0.05²)
    assert found["loss_over_log_snr"].resolution == pytest.approx(1.95996 * 0.1118034, rel=1e-5)
    assert unpaired_difference(Loss(1, None), Loss(2, 0.1)).resolution is None
