"""Crossovers against brute force and curves whose answer is known; shares and correlations against their meaning."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unequal.diffusion.predictions import x0_error_factor
from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.measures.head_errors import combined_error, correlations, crossover, kept_lead, least_error, win_shares

SEEDS = st.integers(0, 2**32 - 1)


def random_errors(seed: int, timesteps: int = 30) -> np.ndarray:
    return np.random.default_rng(seed).lognormal(size=(2, timesteps))


@given(SEEDS)
def test_a_crossover_is_the_best_single_switch(seed: int) -> None:
    below, above = random_errors(seed)
    costs = [np.log(below[:k]).sum() + np.log(above[k:]).sum() for k in range(len(below) + 1)]
    assert costs[crossover(below, above)] == pytest.approx(min(costs))


@given(SEEDS)
def test_a_crossover_is_the_same_in_every_space(seed: int) -> None:
    below, above = random_errors(seed, 50)
    schedule = NoiseSchedule.linear(50)
    factor = x0_error_factor("epsilon", schedule.alpha, schedule.sigma).numpy()
    assert crossover(below * factor, above * factor) == crossover(below, above)


@pytest.mark.parametrize("true", [1, 137, 640, 999])
def test_noise_moves_a_crossover_little(true: int) -> None:
    """Curves that differ by a tenth on either side of t, with noise that makes them cross hundreds of times."""
    random = np.random.default_rng(true)
    t = np.arange(1000)
    below = np.exp(0.1 * np.where(t < true, -1, 1) + random.normal(0, 0.1, 1000))
    above = np.exp(random.normal(0, 0.1, 1000))
    assert np.count_nonzero(np.diff(np.sign(below - above))) > 100
    assert abs(crossover(below, above) - true) < 15


def test_without_a_crossover_one_is_better_throughout() -> None:
    better, worse = np.full(10, 0.5), np.ones(10)
    assert crossover(better, worse) == 10
    assert crossover(worse, better) == 0


def test_errors_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(UserError, match=r"^errors of shapes \[3\] and \[4\] are not of the same timesteps$"):
        crossover(np.ones(3), np.ones(4))
    with pytest.raises(UserError, match="above 0"):
        crossover(np.array([1.0, 0.0]), np.ones(2))


def heads(seed: int, draws: int = 200) -> np.ndarray:
    """Errors of three heads at four timesteps, [T, n, 3]."""
    random = np.random.default_rng(seed)
    return np.einsum("tij,tnj->tni", random.normal(size=(4, 3, 3)), random.normal(size=(4, draws, 3)))


def products_of(errors: np.ndarray) -> np.ndarray:
    return errors[..., :, None] * errors[..., None, :]


@given(SEEDS)
def test_correlations_are_those_of_errors_around_0(seed: int) -> None:
    errors = heads(seed)
    found = correlations(products_of(errors).mean(1))
    for t in range(4):
        mirrored = np.concatenate([errors[t], -errors[t]])  # their mean is 0
        np.testing.assert_allclose(found[t], np.corrcoef(mirrored.T), atol=1e-9)


@given(SEEDS)
def test_a_combined_error_is_that_of_the_weighted_sum(seed: int) -> None:
    errors, weights = heads(seed), np.random.default_rng(seed).dirichlet(np.ones(3), size=4)
    expected = (np.einsum("ti,tni->tn", weights, errors) ** 2).mean(1)
    np.testing.assert_allclose(combined_error(products_of(errors).mean(1), weights), expected)


@given(SEEDS)
def test_no_choice_of_a_head_by_timestep_reaches_the_least_error_of_every_draw(seed: int) -> None:
    errors = heads(seed)
    found = least_error(products_of(errors))
    np.testing.assert_allclose(found, (errors**2).min(2).mean(1))
    assert (found <= (errors**2).mean(1).min(1) * (1 + 1e-12)).all()


def test_shares_of_wins_are_those_of_the_bin() -> None:
    shares = win_shares(np.array([[1, 3, 0], [0, 0, 0], [2, 2, 4]]), np.array([0, 0, 1, 2]))
    np.testing.assert_array_equal(shares[[0, 1, 3]], [[0.25, 0.75, 0], [0.25, 0.75, 0], [0.25, 0.25, 0.5]])
    assert np.isnan(shares[2]).all()


def test_a_lead_is_kept_where_the_same_head_leads() -> None:
    nothing = [np.nan] * 3
    early = np.array([[0.9, 0.1, 0], [0.1, 0.9, 0], [0.2, 0.3, 0.5], nothing, [1, 0, 0]])
    late = np.array([[0.5, 0.4, 0.1], [0.8, 0.2, 0], [0, 0, 1], [1, 0, 0], nothing])
    assert kept_lead(early, late) == pytest.approx(2 / 3)
