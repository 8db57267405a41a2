"""Methods and their controls: differences against closed forms and simulation, verdicts, sentences."""

import math

import numpy as np
import pytest

from unequal.diffusion.schedule import NoiseSchedule
from unequal.evaluation.loss_profile import Errors, endpoints
from unequal.report.comparisons import (
    Comparison,
    difference_of,
    fid_differences,
    loss_differences,
    pairings,
)
from unequal.report.results import Variant
from unequal.report.statements import Difference


def variant(name: str, fid: float = 2.0, images: int = 1000, training: int = 1000, sampling: int = 100) -> Variant:
    return Variant(name, fid, 0.1, fid / 1000, 0.1, 2, images, training, sampling, 5, (50,))


def comparison(method: Variant, fid: Difference | None, budget: str | None = None, **losses: Difference) -> Comparison:
    return Comparison(method, variant("longer", 4.0), fid, losses, budget)


def test_every_method_has_its_fair_control() -> None:
    scored = ["base", "longer", "stratified", "mixed", "slot_3", "experts_unpruned", "experts_pruned", "mine"]
    found = {one.method: (one.control, one.budget) for one in pairings(scored, ["longer", "stratified", "mine"])}
    assert found == {
        "stratified": ("longer", "training_flops"),
        "mixed": ("base", "images_seen"),
        "experts_unpruned": ("longer", "images_seen"),
        "experts_pruned": ("experts_unpruned", "images_seen"),
        "mine": ("longer", "training_flops"),
    }


@pytest.mark.parametrize(("images", "same"), [(1020, True), (1021, False), (981, True), (980, False)])
def test_budgets_that_must_be_the_same_may_differ_by_two_per_cent(images: int, same: bool) -> None:
    one = comparison(variant("mine", images=images), Difference(-2.0, 0.1), "images_seen")
    assert one.comparable == same
    assert ("not comparable, images differ" in one.statement().text) != same
    assert comparison(variant("mine", images=images), None).comparable


@pytest.mark.parametrize(
    ("scores", "log_ratio", "resolution"),
    [
        # Both are four times as high at the second seed: nothing scatters.
        ({"a": [2.0, 8.0], "b": [1.0, 4.0]}, math.log(2), 0),
        # Differences 0 and −0.2: their mean's error is 0.1, with one degree of freedom; t = 12.706.
        ({"a": [1.0, 1.0], "b": [1.0, math.exp(0.2)]}, -0.1, 1.2706),
    ],
)
def test_differences_of_fid_are_those_of_logarithms_by_students_t(
    scores: dict[str, list[float]], log_ratio: float, resolution: float
) -> None:
    (found,) = fid_differences(scores, [("a", "b")])
    assert found is not None
    assert (found.log_ratio, found.resolution) == pytest.approx((log_ratio, resolution), rel=1e-4, abs=1e-12)


def test_variants_without_a_difference_are_seldom_distinguishable() -> None:
    drawn = np.exp(0.1 * np.random.default_rng(0).standard_normal((500, 6, 2)))
    names = "abcdef"
    runs = [fid_differences({name: list(row[i]) for i, name in enumerate(names)}, [("a", "b")]) for row in drawn]
    assert np.mean([one is not None and one.distinguishable for (one,) in runs]) <= 0.07


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
    # d ln r = dr/r, at 1.96 standard errors.
    assert difference_of(-0.5, 0.01)[:2] == pytest.approx((math.log(0.5), 1.95996 * 0.02), rel=1e-5)
