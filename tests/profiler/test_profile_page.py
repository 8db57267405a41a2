"""What the page says of a profile, beyond the figures of the file."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from profiled import document

from unequal.profiler.page import losses_over, shares_of


def test_a_measured_timestep_stands_for_those_that_it_is_nearest_to() -> None:
    np.testing.assert_allclose(shares_of(np.array([0, 4, 9]), 10), [0.25, 0.45, 0.3])


TOTALS = st.integers(2, 50)


@given(TOTALS.flatmap(lambda total: st.tuples(st.just(total), st.sets(st.integers(0, total - 1), min_size=1))))
def test_shares_add_up_and_are_alike_where_all_are_measured(drawn: tuple[int, set[int]]) -> None:
    total, chosen = drawn
    assert abs(shares_of(np.array(sorted(chosen)), total).sum() - 1) < 1e-12
    np.testing.assert_allclose(shares_of(np.arange(total), total), 1 / total)


def test_an_axis_has_plain_numbers_where_losses_span_little_and_powers_where_they_span_much() -> None:
    """Losses of N(0, I), SNR/(1 + SNR): of v they are 1 everywhere, of ε they fall by four powers of ten."""
    figure = Figure()
    FigureCanvasAgg(figure)
    losses_over(figure, document(), by_log_snr=True)
    figure.draw_without_rendering()
    epsilon, v, _ = ([text.get_text() for text in axes.get_yticklabels()] for axes in figure.axes)
    assert any("10^{" in text for text in epsilon)
    assert v and not any("10^{" in text for text in v) and "1" in v
