"""Predictions against diffusers, and the conversions between them against each other."""

import math

import numpy as np
import pytest
import torch
from diffusers import DDIMScheduler, DDPMScheduler
from hypothesis import given
from hypothesis import strategies as st
from one_line import refusal
from tensors import levels
from torch import Tensor

from unequal.diffusion.predictions import (
    HEADS,
    PREDICTIONS,
    RIDGE,
    add_noise,
    head_weights,
    target,
    to_epsilon,
    to_x0,
    x0_error_factor,
)
from unequal.diffusion.schedule import NoiseSchedule

# α = cos, σ = sin of an angle, from nearly clean to nearly pure noise.
ANGLES = st.floats(0.01, math.pi / 2 - 0.01)
SEEDS = st.integers(0, 2**32 - 1)


def draws(seed: int, count: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(2, 3, 4, 4, generator=generator, dtype=torch.float64) for _ in range(count)]


@pytest.mark.parametrize("prediction", PREDICTIONS)
@given(ANGLES, SEEDS)
def test_a_perfect_answer_gives_back_image_and_noise(prediction, angle, seed):
    alpha, sigma = levels(angle)
    x0, epsilon = draws(seed, 2)
    x_t = add_noise(x0, epsilon, alpha, sigma)
    found = to_x0(prediction, target(prediction, x0, epsilon, alpha, sigma), x_t, alpha, sigma)
    torch.testing.assert_close(found, x0, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(to_epsilon(found, x_t, alpha, sigma), epsilon, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("prediction", PREDICTIONS)
@given(ANGLES, SEEDS)
def test_the_factor_turns_a_squared_error_into_one_of_x0(prediction, angle, seed):
    alpha, sigma = levels(angle)
    x_t, answer, error = draws(seed, 3)
    moved = to_x0(prediction, answer + error, x_t, alpha, sigma) - to_x0(prediction, answer, x_t, alpha, sigma)
    expected = x0_error_factor(prediction, alpha, sigma) * error.square().sum()
    torch.testing.assert_close(moved.square().sum(), expected, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("t", [0, 500, 999])
def test_noisy_images_and_velocities_are_those_of_diffusers(t):
    theirs, steps = DDPMScheduler(beta_schedule="linear"), torch.tensor([t, t])
    x0, epsilon = (x.float() for x in draws(t, 2))
    levels = NoiseSchedule.linear(1000).at(steps, x0)
    for ours, expected in (
        (add_noise(x0, epsilon, *levels), theirs.add_noise(x0, epsilon, steps)),
        (target("v_prediction", x0, epsilon, *levels), theirs.get_velocity(x0, epsilon, steps)),
    ):
        torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("t", [0, 400, 900])
@pytest.mark.parametrize("prediction", HEADS)
def test_answers_are_read_as_diffusers_reads_them(prediction, t):
    theirs = DDIMScheduler(beta_schedule="linear", prediction_type=prediction, clip_sample=False)
    theirs.set_timesteps(10)
    x_t, answer = (x.float() for x in draws(t, 2))
    alpha, sigma = NoiseSchedule.linear(1000).at(torch.tensor([t, t]), x_t)
    expected = theirs.step(answer, t, x_t).pred_original_sample
    torch.testing.assert_close(to_x0(prediction, answer, x_t, alpha, sigma), expected, rtol=2e-3, atol=2e-3)


def products(seed: int, timesteps: int = 4) -> np.ndarray:
    generator = np.random.default_rng(seed)
    errors = generator.normal(size=(timesteps, 3, 3)) @ generator.normal(size=(timesteps, 3, 50))
    return errors @ errors.transpose(0, 2, 1) / 50


@given(SEEDS)
def test_blended_errors_have_equal_products_with_every_head(seed):
    """At the minimum no weight can be moved from one head to another with gain: C·w is the same for all."""
    matrices = products(seed)
    weights = head_weights("blend", matrices)
    np.testing.assert_allclose(weights.sum(1), 1, rtol=1e-9)
    ridge = RIDGE * np.trace(matrices, axis1=1, axis2=2)[:, None, None] / 3 * np.eye(3)
    gradient = np.einsum("tij,tj->ti", matrices + ridge, weights)
    np.testing.assert_allclose(gradient, np.tile(gradient[:, :1], 3), rtol=1e-6)


def test_uncorrelated_heads_are_blended_by_their_inverse_errors():
    errors = np.array([[1.0, 2.0, 4.0], [0.1, 0.1, 0.2]])
    matrices = errors[:, :, None] * np.eye(3)
    expected = np.array([[4, 2, 1], [2, 2, 1]]) / np.array([[7], [5]])
    np.testing.assert_allclose(head_weights("blend_diagonal", matrices), expected)
    np.testing.assert_allclose(head_weights("blend", matrices), expected, atol=2e-3)


def test_heads_that_agree_entirely_have_equal_weights():
    """Without the ridge there would be nothing to invert."""
    np.testing.assert_allclose(head_weights("blend", np.ones((2, 3, 3))), np.full((2, 3), 1 / 3))


@given(SEEDS)
def test_the_profile_picks_the_head_with_the_least_error(seed):
    """A head that is chosen by its name is picked everywhere."""
    matrices = products(seed)
    errors = np.diagonal(matrices, axis1=1, axis2=2)
    np.testing.assert_array_equal(head_weights("profile", matrices), np.eye(3)[errors.argmin(1)])
    for number, head in enumerate(HEADS):
        np.testing.assert_array_equal(head_weights(head, matrices), np.eye(3)[[number] * len(matrices)])


X = torch.zeros(1, 1)
UNKNOWN = "prediction 'score' is unknown; allowed: epsilon, v_prediction, sample,"
SPOILED = np.where(np.arange(36).reshape(4, 3, 3) == 21, np.inf, products(0))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: target("score", X, X, X, X), UNKNOWN),
        (lambda: to_x0("score", X, X, X, X), UNKNOWN),
        (lambda: x0_error_factor("score", X, X), UNKNOWN),
        (lambda: head_weights("blend", SPOILED), "the heads' errors are NaN or infinite at t = 2"),
        (lambda: head_weights("vote", products(0)), "selection 'vote' is unknown; allowed: profile, blend, blend_dia"),
    ],
)
def test_what_has_no_meaning_is_refused(make, said):
    assert refusal(make).startswith(said)
