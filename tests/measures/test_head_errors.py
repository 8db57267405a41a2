"""What heads are together, and shares of who leads, against their meaning."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unequal.measures.loss_profile import combined_error, kept_lead, win_shares

SEEDS = st.integers(0, 2**32 - 1)


def heads(seed: int, draws: int = 200) -> np.ndarray:
    """Errors of three heads at four timesteps, [T, n, 3]."""
    random = np.random.default_rng(seed)
    return np.einsum("tij,tnj->tni", random.normal(size=(4, 3, 3)), random.normal(size=(4, draws, 3)))


def products_of(errors: np.ndarray) -> np.ndarray:
    return errors[..., :, None] * errors[..., None, :]


@given(SEEDS)
def test_a_combined_error_is_that_of_the_weighted_sum(seed: int) -> None:
    errors, weights = heads(seed), np.random.default_rng(seed).dirichlet(np.ones(3), size=4)
    expected = (np.einsum("ti,tni->tn", weights, errors) ** 2).mean(1)
    np.testing.assert_allclose(combined_error(products_of(errors).mean(1), weights), expected)


def test_shares_of_wins_are_those_of_the_bin() -> None:
    shares = win_shares(np.array([[1, 3, 0], [0, 0, 0], [2, 2, 4]]), np.array([0, 0, 1, 2]))
    np.testing.assert_array_equal(shares[[0, 1, 3]], [[0.25, 0.75, 0], [0.25, 0.75, 0], [0.25, 0.25, 0.5]])
    assert np.isnan(shares[2]).all()


def test_a_lead_is_kept_where_the_same_head_leads() -> None:
    nothing = [np.nan] * 3
    early = np.array([[0.9, 0.1, 0], [0.1, 0.9, 0], [0.2, 0.3, 0.5], nothing, [1, 0, 0]])
    late = np.array([[0.5, 0.4, 0.1], [0.8, 0.2, 0], [0, 0, 1], [1, 0, 0], nothing])
    assert kept_lead(early, late) == pytest.approx(2 / 3)
