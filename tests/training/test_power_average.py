import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unequal.errors import UserError
from unequal.settings.training import WIDEST
from unequal.training.averaging import PowerProfile, combination, decay, exponent_of, product, relative_error


def averages(values: np.ndarray, exponent: float) -> np.ndarray:
    """The running average of a series, update by update."""
    found, average = [], 0.0
    for step, value in enumerate(values, start=1):
        average = average + (1 - decay(step, exponent)) * (value - average)
        found.append(average)
    return np.array(found)


def test_exponents_of_the_papers_widths():
    assert exponent_of(0.05) == pytest.approx(16.97, abs=0.01)
    assert exponent_of(0.10) == pytest.approx(6.94, abs=0.01)
    assert exponent_of(WIDEST) == pytest.approx(0, abs=1e-6)


@given(st.floats(0.01, WIDEST))
def test_a_profile_has_the_width_that_it_is_named_for(width: float):
    exponent = exponent_of(width)
    points = (np.arange(200_000) + 0.5) / 200_000
    weights = points**exponent / (points**exponent).sum()
    mean = weights @ points
    assert np.sqrt(weights @ (points - mean) ** 2) == pytest.approx(width, rel=1e-3)


def test_the_widest_average_is_the_mean_of_all_steps():
    values = np.random.default_rng(0).normal(size=50)
    assert averages(values, 0.0) == pytest.approx(np.cumsum(values) / np.arange(1, 51))


@given(st.floats(0.02, 0.28), st.sampled_from([2_000, 20_000]))
def test_a_ramp_is_averaged_alike_however_long_it_is(width: float, steps: int):
    exponent = exponent_of(width)
    assert averages(np.arange(steps) / steps, exponent)[-1] == pytest.approx((exponent + 1) / (exponent + 2), rel=3e-3)


@given(st.floats(0.5, 1), st.floats(0, 20), st.floats(0, 20))
def test_products_of_profiles_by_quadrature(share: float, a: float, b: float):
    points = (np.arange(100_000) + 0.5) / 100_000
    first = np.where(points <= share, (a + 1) * points**a / share ** (a + 1), 0)
    integral = np.mean(first * (b + 1) * points**b)
    assert product(PowerProfile(share, a), PowerProfile(1, b)) == pytest.approx(integral, rel=1e-2)


def test_another_width_is_made_afterwards_from_kept_snapshots():
    values = np.cumsum(np.random.default_rng(1).normal(size=4000))
    kept = [PowerProfile(step, exponent_of(width)) for step in range(250, 4001, 250) for width in (0.05, 0.1)]
    snapshots = np.array([averages(values, profile.exponent)[int(profile.time) - 1] for profile in kept])
    for width in (0.06, 0.08, 0.15):
        weights = combination(kept, PowerProfile(4000, exponent_of(width)))
        true = averages(values, exponent_of(width))[-1]
        assert weights.sum() == pytest.approx(1, abs=0.02)
        assert weights @ snapshots == pytest.approx(true, abs=0.05 * values.std())


@pytest.mark.parametrize("width", [0, -0.1, 0.3, float("nan")])
def test_widths_that_no_profile_has_are_refused(width: float):
    with pytest.raises(UserError, match=r"allowed: above 0, at most 0\.2887"):
        exponent_of(width)


def test_an_average_beyond_the_snapshots_is_refused():
    with pytest.raises(UserError, match="an average at 11 from snapshots at"):
        combination([PowerProfile(10, 1)], PowerProfile(11, 2))


@given(st.lists(st.sampled_from([0.25, 0.5, 0.75]), min_size=1, max_size=3, unique=True), st.floats(0.03, 0.28))
def test_what_is_missed_by_quadrature(times: list[float], width: float):
    kept = [PowerProfile(time, exponent_of(each)) for time in (*times, 1.0) for each in (0.05, 0.1)]
    wanted = PowerProfile(1.0, exponent_of(width))
    weights, points = combination(kept, wanted), (np.arange(100_000) + 0.5) / 100_000
    goal, *others = (np.where(points <= t, (g + 1) * np.minimum(points / t, 1) ** g / t, 0) for t, g in (wanted, *kept))
    distance = np.mean((weights @ np.array(others) - goal) ** 2) / np.mean(goal**2)
    assert weights.sum() == pytest.approx(1)
    assert relative_error(kept, wanted, weights) == pytest.approx(np.sqrt(distance), rel=1e-2, abs=1e-4)
