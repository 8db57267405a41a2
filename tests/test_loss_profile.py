"""Means, standard errors and paired changes of measured losses."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from unequal.loss_profile import LossProfile, excess_loss, relative_change

SEEDS = st.integers(0, 2**32 - 1)


def losses(seed: int, timesteps: int = 5, draws: int = 30) -> np.ndarray:
    return np.random.default_rng(seed).gamma(2.0, size=(timesteps, draws))


@given(SEEDS, st.integers(2, 40))
def test_standard_errors_are_those_of_scipy(seed: int, draws: int) -> None:
    sample = losses(seed, draws=draws)
    profile = LossProfile.of(sample)
    np.testing.assert_allclose(profile.mean, np.mean(sample, axis=1))
    np.testing.assert_allclose(profile.stderr, stats.sem(sample, axis=1))


def test_single_precision_is_summed_in_double() -> None:
    sample = np.full((1, 100_000), 0.1, dtype=np.float32)
    assert LossProfile.of(sample).mean[0] == pytest.approx(float(np.float32(0.1)), rel=1e-12)


def test_excess_is_a_difference_of_means_and_never_negative() -> None:
    sample = np.array([[1.0, 3.0], [1.0, 1.0]], dtype=np.float32)
    floor = np.array([[0.5, 2.5], [1.5, 1.0]], dtype=np.float32)
    np.testing.assert_allclose(excess_loss(sample, floor), [0.5, 0.0])


def test_one_draw_below_the_floor_counts_against_the_others() -> None:
    """Only the mean is clipped: to clip every draw would make an excess out of noise."""
    np.testing.assert_allclose(excess_loss(np.array([[1.0, 3.0]]), np.array([[2.0, 1.0]])), [0.5])


@given(SEEDS, st.floats(0.1, 10))
def test_a_change_of_all_losses_by_a_factor_is_certain(seed: int, factor: float) -> None:
    before = losses(seed)
    change, error = relative_change(before, factor * before)
    assert change == pytest.approx(factor - 1, abs=1e-12)
    assert error == pytest.approx(0, abs=1e-12)


@given(SEEDS, st.floats(0.01, 100))
def test_the_unit_of_the_loss_does_not_matter(seed: int, unit: float) -> None:
    before, after = losses(seed), losses(seed + 1)
    assert relative_change(unit * before, unit * after) == pytest.approx(relative_change(before, after))


def test_the_change_is_that_of_the_sums() -> None:
    before, after = np.array([[1.0, 1.0], [3.0, 3.0]]), np.array([[2.0, 2.0], [3.0, 3.0]])
    assert relative_change(before, after) == pytest.approx((0.25, 0.0))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_error_of_a_change_is_that_of_the_bootstrap(seed: int) -> None:
    generator = np.random.default_rng(seed)
    before = losses(seed, timesteps=4, draws=300) * np.array([[4.0], [2.0], [1.0], [0.5]])
    after = before * generator.normal(0.9, 0.2, before.shape) + generator.gamma(1.0, 0.1, before.shape)
    changes = []
    for _ in range(1500):
        # Draws of one timestep are drawn again, before and after together.
        index = generator.integers(before.shape[1], size=before.shape)
        again = np.take_along_axis(before, index, 1), np.take_along_axis(after, index, 1)
        changes.append(again[1].mean(1).sum() / again[0].mean(1).sum() - 1)
    change, error = relative_change(before, after)
    assert error == pytest.approx(np.std(changes), rel=0.1)
    assert change == pytest.approx(np.mean(changes), abs=error / 5)


def test_pairing_makes_the_error_small() -> None:
    before = losses(0, draws=200)
    after = before + np.random.default_rng(1).normal(0, 0.05, before.shape)
    shuffled = np.random.default_rng(2).permuted(after, axis=1)
    paired, unpaired = relative_change(before, after), relative_change(before, shuffled)
    assert paired[0] == pytest.approx(unpaired[0])
    assert paired[1] < unpaired[1] / 5
