"""Which of the papers' claims hold, on made-up numbers."""

import json
from collections.abc import Sequence

import pytest

from unequal.reporting.claims import (
    fid_verdicts,
    losses_differ,
    other_slots_suffer,
    own_slot_improves,
    pruning_costs_little,
    slot_verdicts,
)
from unequal.reporting.tables import Change, GroupLimit, Variant
from unequal.reporting.verdicts import HELD, NOT_HELD, UNDECIDED, verdict_document

GROUPS = [GroupLimit(0, 0.59, 0.6, 10), GroupLimit(1, 1.0, 1.0, 30)]


def variant(
    name: str, fid: float, sd: float | None = 0.1, sampling: int = 100, training: int = 1000, images: int = 1000
) -> Variant:
    return Variant(name, fid, sd, fid / 1000, sd, 1 if sd is None else 2, images, training, sampling, 5, (50,))


def by_name(*variants: Variant) -> dict[str, Variant]:
    return {one.name: one for one in variants}


def words(variants: dict[str, Variant], groups: Sequence[GroupLimit] = GROUPS) -> dict[str, str]:
    return {one.key: one.verdict for one in fid_verdicts(variants, groups)}


def test_losses_differ_by_a_factor_of_a_hundred() -> None:
    sure = losses_differ([10.0, 1.0, 0.01], [0.1, 0.1, 0.0001])
    assert (sure.verdict, sure.figures["largest_at"], sure.figures["smallest_at"]) == (HELD, 0, 2)
    assert sure.figures["ratio"] == pytest.approx(1000)
    assert sure.figures["ratio_stderr"] == pytest.approx(1000 * 2**0.5 / 100)
    assert losses_differ([1.0, 0.1], [0.01, 0.001]).verdict == NOT_HELD
    assert losses_differ([1.1, 0.01], [0.2, 0.002]).verdict == UNDECIDED


def test_slots_improve_themselves_and_harm_the_others() -> None:
    found = [Change(1, 1, -0.1, 0.01), Change(1, 2, 0.5, 0.01), Change(2, 1, 0.2, 0.01), Change(2, 2, -0.03, 0.01)]
    assert own_slot_improves(found).verdict == HELD
    assert other_slots_suffer(found).verdict == HELD
    assert other_slots_suffer(found).figures["most_percent"] == pytest.approx(50)
    mirrored = [Change(one.finetuned, one.slot, -one.change, one.stderr) for one in found]
    assert {one.verdict for one in slot_verdicts(mirrored)} == {NOT_HELD}


def test_a_single_slot_has_no_others_to_harm() -> None:
    assert [one.key for one in slot_verdicts([Change(1, 1, -0.1, 0.01)])] == ["own_slot_improves"]
    assert slot_verdicts([]) == []


def test_each_claim_about_fid_is_decided_by_its_own_two_variants() -> None:
    scores = by_name(
        variant("base", 12), variant("longer", 10), variant("stratified", 9), variant("mixed", 20),
        variant("slot_3", 15), variant("slot_5", 11), variant("experts_unpruned", 10.1),
        variant("experts_pruned", 10.2, sampling=79),
    )  # fmt: skip
    assert words(scores) == {
        "slots_worsen_fid": NOT_HELD,
        "stratified_beats_uniform": HELD,
        "mixed_is_worse": HELD,
        "experts_beat_longer": UNDECIDED,
        "pruned_experts_beat_base": HELD,
        "pruning_costs_little": HELD,
        "limits_are_met": HELD,
    }


def test_claims_whose_variants_were_not_scored_are_left_out() -> None:
    assert words(by_name(variant("base", 12), variant("stratified", 9))) == {}
    assert set(words(by_name(variant("base", 12), variant("mixed", 9)))) == {"mixed_is_worse"}


def test_one_sampling_seed_decides_nothing_about_fid() -> None:
    scores = by_name(variant("base", 12, None), variant("mixed", 500, None), variant("slot_1", 500, None))
    assert set(words(scores).values()) == {UNDECIDED}
    assert all("one sampling seed" in one.rule for one in fid_verdicts(scores, GROUPS))


@pytest.mark.parametrize(("fid", "word"), [(10.5, HELD), (11.1, UNDECIDED), (12.0, NOT_HELD)])
def test_pruning_may_cost_as_much_as_in_the_paper(fid: float, word: str) -> None:
    verdict = pruning_costs_little(variant("experts_pruned", fid, sampling=80), variant("experts_unpruned", 10))
    assert verdict.verdict == word
    assert verdict.figures["sampling_flops_saved_percent"] == pytest.approx(20)


def test_of_a_fid_of_zero_there_is_no_share() -> None:
    verdict = pruning_costs_little(variant("experts_pruned", 1, sampling=80), variant("experts_unpruned", 0))
    assert verdict.verdict == NOT_HELD
    assert "rise_percent" not in verdict.figures
    assert "a change of" not in verdict.summary


@pytest.mark.parametrize(
    ("better", "worse", "key", "spent", "name"),
    [
        ("stratified", "longer", "stratified_beats_uniform", "training", "training FLOPs"),
        ("experts_unpruned", "longer", "experts_beat_longer", "training", "training FLOPs"),
        ("merged", "longer", "merged_beats_longer", "training", "training FLOPs"),
        ("base", "mixed", "mixed_is_worse", "images", "images seen"),
    ],
)
@pytest.mark.parametrize(("budget", "word"), [(1020, HELD), (1021, UNDECIDED), (981, HELD), (980, UNDECIDED)])
def test_claims_for_the_same_budget_need_the_same_budget(
    better: str, worse: str, key: str, spent: str, name: str, budget: int, word: str
) -> None:
    scores = by_name(variant("base", 12)) | by_name(variant(better, 9), variant(worse, 19, **{spent: budget}))
    (verdict,) = (one for one in fid_verdicts(scores, GROUPS) if one.key == key)
    assert verdict.verdict == word
    assert f"decided only where {name} agree within 2 %" in verdict.rule
    assert (f"not comparable: {name} differ by 2." in verdict.summary) == (word == UNDECIDED)
    other = "training" if spent == "images" else "images"
    assert words(scores | by_name(variant(worse, 19, **{other: 5000})))[key] == HELD


@pytest.mark.parametrize("sampling", [10, 100])
def test_each_expert_is_held_to_its_own_limit_whatever_the_steps(sampling: int) -> None:
    scores = by_name(variant("base", 12), variant("experts_pruned", 9, sampling=sampling))
    assert words(scores)["limits_are_met"] == HELD
    assert words(scores, [GroupLimit(0, 0.61, 0.6, 10), GroupLimit(1, 0.2, 1.0, 30)])["limits_are_met"] == NOT_HELD


def test_mean_figures_stand_beside_the_groups() -> None:
    scores = by_name(variant("base", 12), variant("experts_pruned", 9, sampling=81))
    verdict = fid_verdicts(scores, GROUPS)[-1]
    # (10 · 0.6 + 30 · 1)/40 = 0.9
    assert verdict.figures == pytest.approx(
        {
            "groups": 2, "met": 2, "group_0_share": 0.59, "group_0_limit": 0.6, "group_1_share": 1.0,
            "group_1_limit": 1.0, "sampling_flops_ratio": 0.81, "mean_limit_ratio": 0.9,
        }
    )  # fmt: skip


def test_the_document_counts_and_is_json() -> None:
    scores = by_name(variant("base", 12), variant("mixed", 12), variant("experts_pruned", 9, None, sampling=81))
    document = verdict_document(fid_verdicts(scores, [GroupLimit(0, 0.7, 0.6, 40)]))
    assert document["counts"] == {"held": 0, "not_held": 1, "undecided": 2}
    assert document["verdicts"]["limits_are_met"] == NOT_HELD
    assert [one["key"] for one in document["claims"]] == list(document["verdicts"])
    json.dumps(document, allow_nan=False)
