"""Verdicts on simulated studies: no claims without an effect, and effects found at the promised rate."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unequal.statistics.estimates import BlockModel, Estimate, welch
from unequal.statistics.power import Design, upper_deviation, visible_effect
from unequal.statistics.verdicts import BETTER, NOT_TESTABLE, SAME, UNDECIDED, WORSE, Verdict, holm, judge, two_sided

STUDIES = 2000
#: Three standard errors of a share of 0.05 in so many studies.
MARGIN = 3 * (0.05 * 0.95 / STUDIES) ** 0.5


def families(
    deviations: list[float], effects: list[float], delta: float, blocks: int = 5, bounded: bool = False
) -> list[list[Verdict]]:
    """Findings of simulated studies: every arm against the first; bounded: by what their own scatter shows."""
    generator = np.random.default_rng(0)
    names = tuple(f"arm {number}" for number in range(len(deviations)))
    found = []
    for _ in range(STUDIES):
        noise = np.array(deviations)[:, None] * generator.normal(size=(len(names), blocks))
        study = BlockModel(names, noise + np.array(effects)[:, None] + generator.normal(size=blocks))
        visible: list[float] = []
        if bounded:
            bound = upper_deviation(study.pooled_variance**0.5, study.freedom)
            visible = [visible_effect(Design(len(names), blocks, len(names) - 1), bound)] * (len(names) - 1)
        found.append(judge([study.contrast(name, names[0]) for name in names[1:]], delta, visible))
    return found


def share(found: list[list[Verdict]], *words: str) -> float:
    return float(np.mean([any(one.word in words for one in family) for family in found]))


@pytest.mark.slow
@pytest.mark.parametrize(
    "deviations",
    [
        pytest.param([1] * 4, id="four arms"),
        pytest.param([2] + [1] * 8, id="a noisy control"),
        pytest.param([1] * 9, id="equal", marks=pytest.mark.thorough),
        pytest.param([1] * 8 + [2], id="one noisy arm", marks=pytest.mark.thorough),
        pytest.param([1, 2] * 4 + [1], id="half noisy", marks=pytest.mark.thorough),
        pytest.param([2, 1, 1], id="three, a noisy control", marks=pytest.mark.thorough),
        pytest.param([1] * 10 + [12, 7], id="two wild", marks=pytest.mark.thorough),
    ],
)
def test_without_effects_at_most_one_family_in_twenty_claims_one(deviations):
    # δ is so small that nothing is ever called the same, which would take claims away.
    found = families(deviations, [0] * len(deviations), delta=1e-9)
    assert share(found, BETTER, WORSE) <= 0.05 + MARGIN


@pytest.mark.thorough
def test_three_times_the_scatter_in_the_control_is_borne_nearly():
    assert share(families([3] + [1] * 8, [0] * 9, delta=1e-9), BETTER, WORSE) <= 0.07


@pytest.mark.slow
@pytest.mark.thorough
def test_a_study_that_is_bounded_by_its_own_scatter_claims_less():
    """A study bounded by an upper bound of its scatter finds half of the effects of that size."""
    effect = visible_effect(Design(9, 5, 8), upper_deviation(1, 32))
    free, bounded = (families([1.0] * 9, [0.0] * 8 + [effect], 1e-9, bounded=one) for one in (False, True))
    textbook, bounded_share = (float(np.mean([one[-1].word == WORSE for one in found])) for found in (free, bounded))
    assert textbook > 0.8  # what the textbook promises of the scatter itself, which is below its bound
    assert bounded_share == pytest.approx(0.5, abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    "deviations", [[3, 1, 1], pytest.param([1, 1, 1], marks=pytest.mark.thorough)], ids=["noisy control", "equal"]
)
def test_arms_that_scatter_otherwise_are_compared_by_welch_or_in_pairs(deviations):
    generator, found = np.random.default_rng(0), []
    for _ in range(STUDIES):
        control, *arms = np.array(deviations)[:, None] * generator.normal(size=(3, 5))
        pairs = BlockModel(("arm", "control"), np.stack([arms[1], control])).contrast("arm", "control")
        found.append(judge([welch(arms[0], control), pairs], delta=1e-9))
    assert share(found, BETTER, WORSE) <= 0.05 + MARGIN


@pytest.mark.slow
@pytest.mark.parametrize(("arms", "blocks"), [(4, 5), (2, 4), pytest.param(9, 5, marks=pytest.mark.thorough)])
def test_an_effect_of_the_promised_size_is_found_in_four_of_five_studies(arms, blocks):
    effect = visible_effect(Design(arms, blocks, arms - 1), 1.0)
    found = families([1] * arms, [0, -effect, *[0] * (arms - 2)], delta=1e-9, blocks=blocks)
    # Holm's later steps can only add to what its first one finds.
    assert np.mean([family[0].word == BETTER for family in found]) == pytest.approx(0.8, abs=0.03)


@pytest.mark.slow
def test_a_difference_of_delta_is_called_none_in_at_most_one_family_in_twenty():
    """The control is a noisy one."""
    for sign in (1, -1):
        found = families([2, 1, 1, 1, 1], [0] + [sign * 2.5] * 4, delta=2.5)
        assert share(found, SAME) <= 0.05 + MARGIN


def test_what_is_the_same_is_called_so_where_delta_is_wide():
    found = families([1] * 5, [0] * 5, delta=8)
    assert np.mean([one.word == SAME for family in found for one in family]) > 0.95


@given(st.lists(st.floats(-3, 3), min_size=1, max_size=6), st.floats(0.1, 2))
def test_both_directions_are_treated_equally(differences, delta):
    mirrored = {BETTER: WORSE, WORSE: BETTER, SAME: SAME, UNDECIDED: UNDECIDED}
    forth = judge([Estimate(d, 0.5, 8) for d in differences], delta)
    back = judge([Estimate(-d, 0.5, 8) for d in differences], delta)
    assert [mirrored[one.word] for one in forth] == [one.word for one in back]


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == [1, 1]


@pytest.mark.parametrize(
    ("estimates", "delta", "options", "words"),
    [
        # A study that cannot see δ says nothing of what it cannot see.
        ([(-0.59, 0.01)], 0.5, {"visible": [0.6]}, [NOT_TESTABLE]),
        ([(0, 0.01)], 0.5, {"visible": [0.6]}, [NOT_TESTABLE]),
        ([(-0.59, 0.01)], 0.5, {"visible": [0.5]}, [BETTER]),
        ([(-0.59, 0.01)], 0.5, {"visible": [0.6], "needed": 0.7}, [BETTER]),
        # A difference as large as a study sees has the word of the tests.
        ([(-0.6, 0.01), (0.6, 0.01), (0.6, 10)], 0.5, {"visible": [0.6] * 3}, [BETTER, WORSE, UNDECIDED]),
        # What is seen of one comparison bounds no other.
        ([(-0.59, 0.01)] * 2, 0.5, {"visible": [0.6, 0.4]}, [NOT_TESTABLE, BETTER]),
        # What has no scatter is judged by its sign.
        ([(-1, 0), (0, 0)], 0.5, {}, [BETTER, SAME]),
    ],
)
def test_words_of_known_estimates(estimates, delta, options, words):
    verdicts = judge([Estimate(difference, error, 8) for difference, error in estimates], delta=delta, **options)
    assert [one.word for one in verdicts] == words


def test_changes_are_relative():
    verdict = judge([Estimate(np.log(0.9), 0.01, 8)], delta=0.01)[0]
    assert verdict.change == pytest.approx(-0.1)
    assert verdict.low < -0.1 < verdict.high < 0


def test_what_has_no_scatter_is_certain():
    assert [two_sided(Estimate(one, 0, 4)) for one in (-1, 0)] == [0, 1]
