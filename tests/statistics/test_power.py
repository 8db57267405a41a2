import pytest
from piloted import textbook_effect

from unequal.errors import UserError
from unequal.statistics.power import Design, upper_deviation, visible_effect


def test_upper_bounds_of_a_pilots_deviation():
    assert upper_deviation(1, 2) == pytest.approx(2.1, abs=0.02)
    assert upper_deviation(1, 6) == pytest.approx(1.4, abs=0.01)


@pytest.mark.parametrize("plan", [Design(9, 5, 8), Design(4, 5, 3), Design(3, 3, 2)])
def test_guarding_against_unequal_scatter_costs_at_most_a_third_of_the_textbooks_effect(plan: Design):
    assert 1 <= visible_effect(plan, 1) / textbook_effect(plan) <= 4 / 3


def test_the_promise_scales_with_the_deviation_and_falls_with_blocks():
    assert visible_effect(Design(4, 5, 3), 0.02) == pytest.approx(0.02 * visible_effect(Design(4, 5, 3), 1))
    assert visible_effect(Design(4, 8, 3), 1) < visible_effect(Design(4, 5, 3), 1)


def test_designs_without_information_are_refused():
    with pytest.raises(UserError, match="0 degrees of freedom"):
        upper_deviation(1, 0)
    with pytest.raises(UserError, match="two arms, two blocks"):
        visible_effect(Design(1, 5, 1), 1)
