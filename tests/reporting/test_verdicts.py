"""The one rule, on made-up numbers."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unequal.reporting.verdicts import HELD, NOT_HELD, UNDECIDED, Evidence, combined, decide, paired


@pytest.mark.parametrize(
    ("difference", "spread", "word"),
    [
        (2.01, 1.0, HELD),
        (2.0, 1.0, UNDECIDED),
        (0.0, 0.0, UNDECIDED),
        (1e-9, 0.0, HELD),
        (-2.0, 1.0, UNDECIDED),
        (-2.01, 1.0, NOT_HELD),
        (1e9, None, UNDECIDED),
    ],
)
def test_one_comparison_is_decided_by_two_spreads(difference: float, spread: float | None, word: str) -> None:
    assert decide([Evidence(difference, spread)]) == word


FOR, AGAINST, WITHIN = Evidence(3, 1), Evidence(-3, 1), Evidence(1, 1)


@pytest.mark.parametrize(
    ("evidence", "word"),
    [
        ([], UNDECIDED),
        ([FOR, FOR, FOR, WITHIN], HELD),
        ([FOR, FOR, FOR, AGAINST], HELD),
        ([FOR, FOR, WITHIN, WITHIN], UNDECIDED),
        ([FOR, FOR, WITHIN, AGAINST], UNDECIDED),
        ([FOR, FOR, AGAINST, AGAINST], NOT_HELD),
        ([WITHIN] * 4, UNDECIDED),
    ],
)
def test_many_comparisons_need_three_quarters(evidence: list[Evidence], word: str) -> None:
    assert decide(evidence) == word


@given(st.lists(st.builds(Evidence, st.floats(-10, 10), st.floats(0, 3)), min_size=1, max_size=12))
def test_what_speaks_for_a_claim_speaks_against_its_opposite(evidence: list[Evidence]) -> None:
    opposite = [Evidence(-one.difference, one.spread) for one in evidence]
    assert (decide(evidence), decide(opposite)) != (HELD, HELD)
    if decide(evidence) == HELD:
        assert decide(opposite) == NOT_HELD


def test_spreads_of_independent_figures_add_in_squares() -> None:
    assert combined(3.0, 4.0) == 5.0
    assert combined(3.0, None) is None


def test_paired_differences_decide_at_95_percent_however_few() -> None:
    # Student's t for three seeds: 2.5 % lie beyond 4.303 standard errors on either side.
    assert paired([1.0, 2.0, 3.0]).spread == pytest.approx(4.30265 / 2 / math.sqrt(3), rel=1e-5)
    drawn = np.random.default_rng(0).normal(size=(20_000, 3))
    decided = np.mean([paired(list(row)).side != 0 for row in drawn])
    assert decided == pytest.approx(0.05, abs=0.006)


def test_one_seed_decides_nothing() -> None:
    assert paired([5.0]) == Evidence(5.0, None)
