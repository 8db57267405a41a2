"""Means, standard errors, spaces and paired changes of measured losses."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from unequal.diffusion.predictions import target, to_x0
from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.measures.loss_profile import (
    SPACES,
    LossProfile,
    excess_loss,
    excess_profile,
    relative_change,
    space_factor,
)

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


@pytest.mark.parametrize("name", ["linear", "cosine", "scaled_linear"])
def test_losses_of_gaussian_images_in_all_spaces_are_those_in_closed_form(name: str) -> None:
    """Of images from N(0, s²) the best denoiser leaves the posterior's variance, s²σ²/(α²s² + σ²), of x0."""
    schedule, variance = NoiseSchedule.named(name, 200), 0.3
    alpha2, sigma2 = schedule.alphas_cumprod.numpy(), 1 - schedule.alphas_cumprod.numpy()
    whole = alpha2 * variance + sigma2
    expected = {"epsilon": alpha2 * variance / whole, "v": variance / whole, "x0": variance * sigma2 / whole}
    for space, loss in expected.items():
        np.testing.assert_allclose(expected["epsilon"] * space_factor(space, schedule), loss, rtol=1e-9)
    assert set(expected) == set(SPACES)


def test_errors_of_one_answer_are_converted_as_its_predictions_are() -> None:
    schedule = NoiseSchedule.linear(60)
    generator = torch.Generator().manual_seed(0)
    x0, epsilon, answer = torch.randn(3, 60, 5, generator=generator, dtype=torch.float64)
    alpha, sigma = schedule.alpha[:, None], schedule.sigma[:, None]
    found = to_x0("epsilon", answer, alpha * x0 + sigma * epsilon, alpha, sigma)
    error = (answer - epsilon).square().mean(1).numpy()
    for space, prediction in SPACES.items():
        truth, told = target(prediction, x0, epsilon, alpha, sigma), target(prediction, found, answer, alpha, sigma)
        np.testing.assert_allclose(error * space_factor(space, schedule), (told - truth).square().mean(1), rtol=1e-9)


def test_a_factor_scales_errors_as_it_scales_losses() -> None:
    factor = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    scaled = LossProfile.of(losses(0)).scaled(factor)
    expected = LossProfile.of(losses(0) * factor[:, None])
    np.testing.assert_allclose(scaled.mean, expected.mean)
    np.testing.assert_allclose(scaled.stderr, expected.stderr)
    assert scaled.largest_over_smallest == pytest.approx(scaled.mean.max() / scaled.mean.min())


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_profile_with_a_hole_is_refused_where_it_is(bad: float) -> None:
    sample = losses(0)
    sample[3, 7] = bad
    for use in (LossProfile.of, lambda table: relative_change(losses(1), table)):
        with pytest.raises(UserError, match=rf"^the loss profile holds {bad} at t = 3; losses are finite$"):
            use(sample)


@pytest.mark.parametrize("sample", [np.ones(5), np.ones((5, 1)), np.ones((5, 0))])
def test_fewer_than_two_draws_have_no_standard_error(sample: np.ndarray) -> None:
    with pytest.raises(UserError, match=r"are no profile; needed: \[timesteps, 2 draws or more\]"):
        LossProfile.of(sample)


def test_other_draws_are_not_compared() -> None:
    with pytest.raises(UserError, match=r"losses of shape \[5, 30\] and optimal-denoiser losses of shape \[5, 20\]"):
        excess_profile(losses(0), losses(0, draws=20))
    with pytest.raises(UserError, match=r"losses of shapes \[5, 30\] and \[4, 30\] are not of the same draws"):
        relative_change(losses(0), losses(0, timesteps=4))


def test_errors_of_an_excess_are_those_of_the_differences() -> None:
    sample, floor = losses(0), losses(1)
    np.testing.assert_allclose(excess_profile(sample, floor).stderr, stats.sem(sample - floor, axis=1))
