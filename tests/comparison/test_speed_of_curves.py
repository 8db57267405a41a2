import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unequal.comparison.speed import Curve, log_speed_up, shift_onto

IMAGES = (100, 200, 400, 600, 800, 1000)


@given(st.floats(0.2, 5), st.floats(-2, -0.1), st.floats(0.1, 50))
def test_a_power_law_that_runs_faster_by_c_is_found_out(c, slope, level):
    baseline = Curve(IMAGES, [level * n**slope for n in IMAGES])
    run = Curve(IMAGES, [level * (c * n) ** slope for n in IMAGES])
    assert log_speed_up(run, baseline) == pytest.approx(np.log(c), abs=1e-9)
    assert log_speed_up(baseline, run) == pytest.approx(-np.log(c), abs=1e-9)


def test_a_run_that_flattens_is_laid_where_the_faster_one_has_been():
    """Curves of unlike slopes have no common one: the slower one's level is looked up on the faster one's own curve."""
    baseline = Curve(IMAGES, [100 / n for n in IMAGES])
    flat = Curve(IMAGES, [2.0, 0.6, 0.5, 0.5, 0.5, 0.5])  # what the baseline has come to after 200 images
    expected = np.log(200) - np.log([600, 800, 1000]).mean()
    assert log_speed_up(flat, baseline) == pytest.approx(expected)
    assert log_speed_up(baseline, flat) == pytest.approx(-expected)


@given(st.integers(0, 2**32 - 1))
def test_no_other_shift_fits_better(seed):
    generator = np.random.default_rng(seed)
    faster = Curve(IMAGES, np.exp(np.cumsum(generator.normal(-0.2, 0.2, 6))).tolist())
    slower = Curve(IMAGES, (faster.figures * np.exp(0.3 + generator.normal(0, 0.1, 6))).tolist())
    (u, y), (grid, level) = slower.second_half(), faster.logarithms()

    def error(shift: float) -> float:
        at = u + shift
        first = level[0] + (at - grid[0]) * (level[1] - level[0]) / (grid[1] - grid[0])
        return float(((np.where(at < grid[0], first, np.interp(at, grid, level)) - y) ** 2).sum())

    best = error(shift_onto(slower, faster))
    assert best <= min(map(error, np.linspace(grid[0] - u[-1], 0, 2001))) + 1e-9


def test_a_run_that_crosses_and_then_diverges_is_slower():
    baseline = Curve(IMAGES, [9, 8, 7, 6.5, 6.2, 6.0])
    diverging = Curve(IMAGES, [8, 6.1, 5.9, 7.0, 7.2, 7.1])
    assert log_speed_up(diverging, baseline) < 0
