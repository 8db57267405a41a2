"""Densities as draws and as weights: expected gradients, least variance, bounds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unequal.errors import UserError
from unequal.timesteps.partition import Partition
from unequal.timesteps.samplers import TimestepSampler, WeightedSampler, least_variance_density

CELLS = Partition([(0, 3), (4, 9), (10, 24), (25, 39), (40, 59)])
MOMENTS = np.array([400.0, 25.0, 9.0, 1.0, 0.25])
T = CELLS.timesteps


def test_weights_on_uniform_draws_expect_what_plain_draws_expect() -> None:
    density, gradients = least_variance_density(CELLS, MOMENTS, 0.1), np.random.default_rng(0).normal(size=T)
    sampler = WeightedSampler(density)
    assert (sampler.probabilities * sampler.importance() * gradients).sum() == pytest.approx(
        (density * gradients).sum()
    )
    batch = sampler.sample(5000, np.random.default_rng(1))
    np.testing.assert_array_equal(batch.weights, (T * density)[batch.timesteps])
    assert np.bincount(batch.timesteps, minlength=T).min() > 40  # of 83 expected


@given(st.lists(st.floats(0.01, 1), min_size=5, max_size=5))
def test_no_other_probabilities_of_cells_have_less_variance(others: list[float]) -> None:
    """With weights 1/(T·p), an image's gradient has the second moment Σ_t E‖g_t‖²/(T²·p_t)."""

    def second_moment(density: np.ndarray) -> float:
        return float((MOMENTS[CELLS.members] / (T**2 * density)).sum())

    other = np.repeat(np.array(others) / sum(others) / CELLS.lengths, CELLS.lengths)
    least = least_variance_density(CELLS, MOMENTS, 1e-9)
    assert second_moment(least) <= second_moment(other) * (1 + 1e-6)


def test_a_share_of_uniform_timesteps_bounds_the_weights() -> None:
    density = least_variance_density(CELLS, MOMENTS, 0.1)
    assert density.sum() == pytest.approx(1)
    assert TimestepSampler(density, True).importance().max() <= 10
    np.testing.assert_allclose(least_variance_density(CELLS, MOMENTS, 1.0), 1 / T)


@pytest.mark.parametrize(
    ("moments", "share", "complaint"),
    [
        (MOMENTS[:4], 0.1, "second moments of 5 cells are as many numbers"),
        (-MOMENTS, 0.1, "second moments of 5 cells"),
        (MOMENTS * np.nan, 0.1, "second moments of 5 cells"),
        (MOMENTS, 0.0, "a uniform share of 0.0; allowed: above 0"),
    ],
)
def test_what_is_no_density_is_refused(moments: np.ndarray, share: float, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        least_variance_density(CELLS, moments, share)
