"""Figures of a profile's page that its file does not hold."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from unequal.profiler.page import shares_of


def test_a_measured_timestep_stands_for_those_that_it_is_nearest_to() -> None:
    np.testing.assert_allclose(shares_of(np.array([0, 4, 9]), 10), [0.25, 0.45, 0.3])


TOTALS = st.integers(2, 50)


@given(TOTALS.flatmap(lambda total: st.tuples(st.just(total), st.sets(st.integers(0, total - 1), min_size=1))))
def test_shares_add_up_and_are_equal_where_all_are_measured(drawn: tuple[int, set[int]]) -> None:
    total, chosen = drawn
    assert abs(shares_of(np.array(sorted(chosen)), total).sum() - 1) < 1e-12
    np.testing.assert_allclose(shares_of(np.arange(total), total), 1 / total)
