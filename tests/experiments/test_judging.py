"""Verdicts on simulated experiments: no claims without an effect, and effects found at the promised rate."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from one_line import refusal
from scipy import stats

from unequal.experiments.judging import (
    BETTER,
    SAME,
    UNDECIDED,
    WORSE,
    Judgement,
    equivalence,
    family,
    holm,
    judge,
    two_sided,
    verdict,
    visible_effect,
)

EXPERIMENTS = 2000
#: Three standard errors of a share of 0.05 in so many experiments.
MARGIN = 3 * (0.05 * 0.95 / EXPERIMENTS) ** 0.5
Table = list[dict[str, object]]


def trainings(values: np.ndarray) -> Table:
    """Rows of variants v0, v1 … by seeds, of ln(fid) [variants, seeds]."""
    return [
        {"variant": f"v{variant}", "seed": seed, "fid": float(np.exp(value))}
        for variant, row in enumerate(values)
        for seed, value in enumerate(row)
    ]


def against_first(variants: int) -> list[tuple[str, str]]:
    return [(f"v{number}", "v0") for number in range(1, variants)]


def simulated(deviations: list[float], effects: list[float], delta: float, seeds: int = 5) -> list[list[Judgement]]:
    """Judgements of simulated experiments: every variant against the first."""
    generator = np.random.default_rng(0)
    count, found = len(deviations), []
    for _ in range(EXPERIMENTS):
        noise = np.array(deviations)[:, None] * generator.normal(size=(count, seeds))
        values = noise + np.array(effects)[:, None] + generator.normal(size=seeds)
        found.append(family(trainings(values), against_first(count), "fid", delta))
    return found


def share(found: list[list[Judgement]], *verdicts: str) -> float:
    return float(np.mean([any(one.verdict in verdicts for one in family) for family in found]))


@pytest.mark.slow
@pytest.mark.parametrize(
    "deviations",
    [
        pytest.param([1] * 4, id="four variants"),
        pytest.param([2] + [1] * 8, id="a noisy control"),
        pytest.param([1] * 9, id="equal", marks=pytest.mark.thorough),
        pytest.param([1] * 8 + [2], id="one noisy variant", marks=pytest.mark.thorough),
        pytest.param([1, 2] * 4 + [1], id="half noisy", marks=pytest.mark.thorough),
        pytest.param([2, 1, 1], id="three, a noisy control", marks=pytest.mark.thorough),
        pytest.param([1] * 10 + [12, 7], id="two wild", marks=pytest.mark.thorough),
    ],
)
def test_without_effects_at_most_one_family_in_twenty_claims_one(deviations):
    # δ is so small that nothing is ever called the same, which would take claims away.
    found = simulated(deviations, [0] * len(deviations), delta=1e-9)
    assert share(found, BETTER, WORSE) <= 0.05 + MARGIN
    covered = np.mean([one.low <= 0 <= one.high for family in found for one in family])
    assert covered >= 0.95 - MARGIN


@pytest.mark.slow
@pytest.mark.parametrize(("variants", "seeds"), [(4, 5), (2, 4), pytest.param(9, 5, marks=pytest.mark.thorough)])
def test_effects_of_the_size_that_is_called_detectable_are_found(variants, seeds):
    """The size is that of the scatter's upper bound; guarding against unequal scatter costs some of it."""
    freedom = (variants - 1) * (seeds - 1)
    effect = visible_effect(freedom, variants - 1) * (2 / seeds) ** 0.5
    found = simulated([1] * variants, [0, -effect, *[0] * (variants - 2)], delta=1e-9, seeds=seeds)
    assert np.mean([family[0].verdict == BETTER for family in found]) >= 0.8


@pytest.mark.slow
def test_a_difference_of_delta_is_called_none_in_at_most_one_family_in_twenty():
    """The control is a noisy one."""
    for sign in (1, -1):
        found = simulated([2, 1, 1, 1, 1], [0] + [sign * 2.5] * 4, delta=2.5)
        assert share(found, SAME) <= 0.05 + MARGIN


@pytest.mark.slow
def test_what_is_the_same_is_called_so_where_delta_is_wide():
    found = simulated([1] * 5, [0] * 5, delta=8)
    assert np.mean([one.verdict == SAME for family in found for one in family]) > 0.95


def test_a_contrast_is_students_paired_test():
    values = np.random.default_rng(2).normal(size=(2, 6))
    (found,) = family(trainings(values), [("v1", "v0")], "fid", 0.1)
    paired = stats.ttest_rel(values[1], values[0])
    assert (found.difference, found.p_difference) == pytest.approx((np.mean(values[1] - values[0]), paired.pvalue))
    assert (found.low, found.high) == pytest.approx(tuple(paired.confidence_interval(0.95)))
    either = [stats.ttest_1samp(values[1] - values[0], end, alternative=side).pvalue for end, side in
              ((-0.1, "greater"), (0.1, "less"))]  # fmt: skip
    assert found.p_same == pytest.approx(max(either))


@given(st.integers(0, 500), st.floats(0.05, 2))
def test_both_directions_are_treated_equally(seed, delta):
    mirrored = {BETTER: WORSE, WORSE: BETTER, SAME: SAME, UNDECIDED: UNDECIDED}
    values = np.random.default_rng(seed).normal(size=(4, 3))
    forth, back = (family(trainings(one), against_first(4), "fid", delta) for one in (values, -values))
    assert [mirrored[one.verdict] for one in forth] == [one.verdict for one in back]


@given(st.integers(0, 500), st.floats(0.1, 10))
def test_the_unit_of_an_endpoint_changes_nothing(seed, unit):
    values = np.random.default_rng(seed).normal(size=(3, 3))
    own, scaled = (family(trainings(one), against_first(3), "fid", 0.1) for one in (values, values + np.log(unit)))
    assert [one.verdict for one in own] == [one.verdict for one in scaled]
    assert [one.difference for one in own] == pytest.approx([one.difference for one in scaled])


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == [1, 1]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_lies_between_the_p_and_bonferronis(p_values):
    adjusted = holm(p_values)
    assert all(p <= own <= min(1, len(p_values) * p) + 1e-12 for p, own in zip(p_values, adjusted, strict=True))


@pytest.mark.parametrize(
    ("estimate", "expected"),
    [((-0.3, 1e-6, 1.0), BETTER), ((0.3, 1e-6, 1.0), WORSE), ((0.3, 1e-6, 1e-6), SAME), ((0.3, 0.06, 0.06), UNDECIDED)],
)
def test_words_follow_from_the_tests(estimate, expected):
    assert verdict(*estimate) == expected


def test_what_has_no_scatter_is_certain():
    assert [two_sided(one, 0, 4) for one in (-1.0, 0.0)] == [0, 1]
    assert [equivalence(one, 0, 4, 0.5) for one in (0.1, 1.0)] == [0, 1]


def test_the_detectable_effect_is_the_textbooks_at_the_upper_end_of_the_scatter():
    """The upper end is 2.1 times the scatter at 2 degrees of freedom, 1.4 times at 6."""
    for freedom, bound in ((2, 2.1), (6, 1.4)):
        textbook = stats.t.ppf(1 - 0.05 / 2 / 3, freedom) + stats.t.ppf(0.8, freedom)
        assert visible_effect(freedom, 3) == pytest.approx(bound * textbook, rel=0.02)


def test_every_endpoint_is_a_family_of_its_own():
    rows = [row | {"loss": 1.0 + 0.01 * number} for number, row in enumerate(trainings(np.zeros((3, 2))))]
    found = judge(rows, against_first(3), {"fid": 0.1, "loss": 0.01})
    assert [(one.endpoint, one.variant, one.control) for one in found] == [
        ("fid", "v1", "v0"), ("fid", "v2", "v0"), ("loss", "v1", "v0"), ("loss", "v2", "v0")
    ]  # fmt: skip


@pytest.mark.parametrize("value", ["", "0", "nan", "inf", None], ids=str)
def test_a_training_without_an_endpoint_is_named(value):
    rows = trainings(np.zeros((2, 3)))
    rows[4]["fid"] = value
    assert refusal(judge, rows, [("v1", "v0")], {"fid": 0.1}).startswith("fid of variant 'v1', seed 1: missing")
    assert "seed 1" in refusal(judge, rows[:4] + rows[5:], [("v1", "v0")], {"fid": 0.1})
