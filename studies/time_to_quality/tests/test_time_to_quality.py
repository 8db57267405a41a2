"""Speed-ups on curves whose answer is known."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from studies.time_to_quality.claims import paper_speed_up, pays
from studies.time_to_quality.findings import Trial, compare, images_to_reach
from studies.time_to_quality.tables import rows
from unequal.reporting.verdicts import HELD, NOT_HELD, UNDECIDED

IMAGES = (1000, 2000, 4000, 8000)


def power_law(scale: float, exponent: float = 1.0) -> Trial:
    """FID = scale · images^−exponent: straight in the logarithms, as the interpolation takes it."""
    return Trial(IMAGES, tuple(scale * count**-exponent for count in IMAGES))


@given(st.floats(0.2, 3.0), st.floats(1001, 8000))
def test_a_power_law_is_met_exactly_between_the_points(exponent: float, at: float) -> None:
    found = images_to_reach(power_law(5.0, exponent), 5.0 * at**-exponent)
    assert found == pytest.approx(at, rel=1e-9) or math.isclose(at, 8000) or (found is None and at > 7999.999)


def test_what_is_never_reached_has_no_answer_and_the_first_point_is_the_earliest_one() -> None:
    assert images_to_reach(power_law(5.0), 1e-9) is None
    assert images_to_reach(power_law(5.0), 1e9) == 1000


def test_a_detour_counts_from_the_first_time() -> None:
    assert images_to_reach(Trial(IMAGES, (9.0, 1.0, 5.0, 0.5)), 1.0) == pytest.approx(2000)


def trials(faster: float, noise: tuple[float, ...] = (1.0, 1.01, 0.99)) -> dict[tuple[str, str], list[Trial]]:
    """A recipe that needs `faster` times fewer images than uniform everywhere, three seeds with common noise."""
    return {
        ("uniform", "16x1"): [power_law(8000.0 * one) for one in noise],
        ("curriculum", "16x1"): [power_law(8000.0 * one / faster) for one in noise],
    }


def test_a_recipe_twice_as_fast_is_found_to_be_so() -> None:
    found = compare("curriculum", "uniform", "16x1", trials(2.5))
    assert found.speed_ups == pytest.approx([2.5, 2.5 / 1.01, 2.5 / 0.99])
    assert pays(found).verdict == HELD
    assert paper_speed_up([found]).verdict == HELD
    assert rows([found])[0]["speed_up_mean"] == pytest.approx(2.5, rel=1e-3)


def test_a_recipe_that_is_slower_never_reaches_it() -> None:
    found = compare("curriculum", "uniform", "16x1", trials(0.5))
    assert found.reached == (None, None, None)
    assert pays(found).verdict == NOT_HELD
    assert paper_speed_up([found]).verdict == NOT_HELD
    assert rows([found])[0]["speed_up_mean"] == ""


def test_the_same_recipe_decides_nothing() -> None:
    assert pays(compare("curriculum", "uniform", "16x1", trials(1.0))).verdict == UNDECIDED


def test_one_seed_decides_nothing() -> None:
    assert pays(compare("curriculum", "uniform", "16x1", trials(3.0, (1.0,)))).verdict == UNDECIDED
