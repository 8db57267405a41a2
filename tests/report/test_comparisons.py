"""Methods beside their controls, on made-up figures."""

import math
import re

import pytest

from unequal.report.comparisons import Comparison, in_order, pairings
from unequal.report.results import Variant
from unequal.report.statements import Difference

JUDGING = re.compile(r"\b(better|worse|held(?![- ]out)|pays|paid|wins|beats?)\b")


def variant(name: str, fid: float = 2.0, images: int = 1000, training: int = 1000, sampling: int = 100) -> Variant:
    return Variant(name, fid, 0.1, fid / 1000, 0.1, 2, images, training, sampling, 5, (50,))


def comparison(method: Variant, fid: Difference | None, budget: str | None = None, **losses: Difference) -> Comparison:
    return Comparison(method, variant("longer", 4.0), fid, losses, budget)


def test_every_method_has_its_fair_control() -> None:
    scored = ["base", "longer", "stratified", "mixed", "slot_3", "experts_unpruned", "experts_pruned", "merged", "mine"]
    found = {one.method: (one.control, one.budget) for one in pairings(scored, ["longer", "stratified", "mine"])}
    assert found == {
        "stratified": ("longer", "training_flops"),
        "mixed": ("base", "images_seen"),
        "experts_unpruned": ("longer", "images_seen"),
        "experts_pruned": ("experts_unpruned", "images_seen"),
        "merged": ("longer", "images_seen"),
        "mine": ("longer", "training_flops"),
    }


def test_methods_whose_control_was_not_scored_are_left_out() -> None:
    found = pairings(["base", "stratified", "experts_pruned", "merged"], ["stratified"])
    assert [(one.method, one.control) for one in found] == [("merged", "base")]


def test_a_sentence_has_figures_resolution_and_cost() -> None:
    one = comparison(
        variant("experts_pruned", 3.0, sampling=86),
        Difference(math.log(0.75), math.log(1.2)),
        loss_over_timesteps=Difference(math.log(0.98), 0.05),
    )
    found = one.statement()
    assert found.subject == "experts pruned"
    assert found.text == (
        "against longer: FID −25.0 % (−37.5 to −10.0 %), 3.00 after 4.00; "
        "loss over timesteps −2.0 % (−6.8 to +3.0 %, not distinguishable); "
        "at equal images and training FLOPs, 0.86 × the sampling FLOPs."
    )
    assert found.figures["fid_change_percent"] == pytest.approx(-25)
    assert found.figures["loss_over_timesteps_high_percent"] == pytest.approx(100 * (0.98 * math.exp(0.05) - 1))
    assert found.figures["sampling_flops_ratio"] == 0.86


def test_the_lowest_comes_first_and_what_cannot_be_ranked_last() -> None:
    high, low = comparison(variant("high"), Difference(0.5, 0.1)), comparison(variant("low"), Difference(-0.5, 0.1))
    unknown = comparison(variant("unknown"), None)
    unfair = comparison(variant("unfair", images=1500), Difference(-2.0, 0.1), "images_seen")
    found = [unfair, high, unknown, low]
    assert [one.method.name for one in in_order(found, ranked=True)] == ["low", "high", "unfair", "unknown"]
    assert in_order(found, ranked=False) == found


@pytest.mark.parametrize(("images", "same"), [(1020, True), (1021, False), (981, True), (980, False)])
def test_budgets_that_must_be_the_same_may_differ_by_two_per_cent(images: int, same: bool) -> None:
    one = comparison(variant("merged", images=images), Difference(-2.0, 0.1), "images_seen")
    assert one.comparable == same
    assert ("not comparable, images differ" in one.statement().text) != same
    assert comparison(variant("merged", images=images), None).comparable


def test_endpoints_that_point_apart_are_said_to_disagree() -> None:
    down, up, within = Difference(-0.5, 0.1), Difference(0.5, 0.1), Difference(0.5, 0.6)
    assert "FID and losses disagree" in comparison(variant("a"), down, loss_over_timesteps=up).statement().text
    for other in (down, within):
        assert "disagree" not in comparison(variant("a"), down, loss_over_timesteps=other).statement().text


def test_of_a_fid_of_zero_there_is_no_share() -> None:
    found = comparison(variant("mixed", 0.0), None).statement()
    assert "FID no relative change of a FID of 0, 0 after 4.00; at equal images and FLOPs." in found.text
    assert not [name for name in found.figures if name.startswith("fid")]
