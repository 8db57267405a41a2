"""How three heads are combined."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unequal.diffusion.predictions import HEADS, RIDGE, head_weights
from unequal.errors import UserError

SEEDS = st.integers(0, 2**32 - 1)


def products(seed: int, timesteps: int = 4) -> np.ndarray:
    """Mean products of correlated errors, [T, 3, 3]."""
    generator = np.random.default_rng(seed)
    errors = generator.normal(size=(timesteps, 3, 3)) @ generator.normal(size=(timesteps, 3, 50))
    return errors @ errors.transpose(0, 2, 1) / 50


def variance(weights: np.ndarray, matrices: np.ndarray) -> np.ndarray:
    return np.einsum("ti,tij,tj->t", weights, matrices, weights)


@given(SEEDS)
def test_blending_beats_any_other_weights_that_sum_to_1(seed: int) -> None:
    matrices = products(seed)
    blend = head_weights("blend", matrices)
    np.testing.assert_allclose(blend.sum(1), 1, rtol=1e-9)
    # The ridge is part of what is minimised; this is all that it can cost.
    ridge = RIDGE * np.trace(matrices, axis1=1, axis2=2) / 3
    others = np.random.default_rng(seed).normal(size=(50, *blend.shape))
    others[..., 2] = 1 - others[..., 0] - others[..., 1]
    for other in [*others, *(np.tile(row, (len(matrices), 1)) for row in np.eye(3))]:
        allowed = variance(other, matrices) + ridge * (other**2).sum(1)
        assert (variance(blend, matrices) <= allowed * (1 + 1e-9)).all()


@given(SEEDS)
def test_blended_errors_have_equal_products_with_every_head(seed: int) -> None:
    """At the minimum no weight can be moved from one head to another with gain: C·w is the same for all."""
    matrices = products(seed)
    ridge = RIDGE * np.trace(matrices, axis1=1, axis2=2)[:, None, None] / 3 * np.eye(3)
    gradient = np.einsum("tij,tj->ti", matrices + ridge, head_weights("blend", matrices))
    np.testing.assert_allclose(gradient, np.tile(gradient[:, :1], 3), rtol=1e-6)


def test_uncorrelated_heads_are_blended_by_their_inverse_errors() -> None:
    errors = np.array([[1.0, 2.0, 4.0], [0.1, 0.1, 0.2]])
    matrices = errors[:, :, None] * np.eye(3)
    expected = np.array([[4, 2, 1], [2, 2, 1]]) / np.array([[7], [5]])
    np.testing.assert_allclose(head_weights("blend_diagonal", matrices), expected)
    np.testing.assert_allclose(head_weights("blend", matrices), expected, atol=2e-3)


def test_heads_that_agree_entirely_share_alike() -> None:
    """Without the ridge there would be nothing to invert."""
    np.testing.assert_allclose(head_weights("blend", np.ones((2, 3, 3))), np.full((2, 3), 1 / 3))


@given(SEEDS)
def test_the_profile_picks_the_head_with_the_least_error(seed: int) -> None:
    matrices = products(seed)
    errors = np.diagonal(matrices, axis1=1, axis2=2)
    weights = head_weights("profile", matrices)
    np.testing.assert_array_equal(weights.sum(1), 1)
    np.testing.assert_allclose((weights * errors).sum(1), errors.min(1))


@pytest.mark.parametrize("head", HEADS)
def test_one_head_speaks_alone(head: str) -> None:
    weights = head_weights(head, products(0))
    assert (weights[:, HEADS.index(head)] == 1).all()
    assert weights.sum() == len(weights)


@pytest.mark.parametrize("select", ["profile", "blend"])
def test_errors_that_are_no_numbers_are_refused(select: str) -> None:
    spoiled = products(0)
    spoiled[2, 1, 0] = np.inf
    with pytest.raises(UserError, match=r"^the heads' errors are NaN or infinite at t = 2"):
        head_weights(select, spoiled)


def test_an_unknown_selection_is_refused() -> None:
    with pytest.raises(UserError, match=r"^selection 'vote' is unknown; allowed: profile, blend, blend_diagonal, sam"):
        head_weights("vote", products(0))
