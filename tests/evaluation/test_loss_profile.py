"""Means, standard errors, spaces and paired changes of measured losses."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from one_line import refusal
from scipy import integrate, interpolate, stats

from unequal.diffusion.predictions import target, to_x0
from unequal.diffusion.schedule import NoiseSchedule
from unequal.evaluation.loss_profile import (
    SPACES,
    Errors,
    Interval,
    LossProfile,
    endpoints,
    excess_loss,
    excess_profile,
    log_snr_weights,
    relative_change,
    space_factor,
    win_shares,
)

SEEDS = st.integers(0, 2**32 - 1)


def losses(seed: int, timesteps: int = 5, draws: int = 30) -> np.ndarray:
    return np.random.default_rng(seed).gamma(2.0, size=(timesteps, draws))


@given(SEEDS, st.integers(2, 40))
def test_standard_errors_are_those_of_scipy(seed, draws):
    """An excess has those of the differences."""
    sample, floor = losses(seed, draws=draws).astype(np.float32), losses(seed + 1, draws=draws).astype(np.float32)
    double = sample.astype(np.float64)
    np.testing.assert_allclose(LossProfile.of(sample).mean, double.mean(1), rtol=1e-12)
    np.testing.assert_allclose(LossProfile.of(sample).stderr, stats.sem(double, axis=1), rtol=1e-6)
    np.testing.assert_allclose(excess_profile(sample, floor).stderr, stats.sem(double - floor, axis=1), rtol=1e-5)


def test_excess_is_a_difference_of_means_and_never_negative():
    sample = np.array([[1.0, 3.0], [1.0, 1.0]], dtype=np.float32)
    floor = np.array([[0.5, 2.5], [1.5, 1.0]], dtype=np.float32)
    np.testing.assert_allclose(excess_loss(sample, floor), [0.5, 0.0])


def test_the_change_is_that_of_the_sums():
    before, after = np.array([[1.0, 1.0], [3.0, 3.0]]), np.array([[2.0, 2.0], [3.0, 3.0]])
    assert relative_change(before, after) == pytest.approx((0.25, 0.0))


def test_the_error_of_a_change_is_that_of_the_bootstrap():
    generator = np.random.default_rng(0)
    before = losses(0, timesteps=4, draws=300) * np.array([[4.0], [2.0], [1.0], [0.5]])
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


@pytest.mark.parametrize("name", ["linear", "cosine", "scaled_linear"])
def test_losses_of_gaussian_images_in_all_spaces_are_those_in_closed_form(name):
    """The best denoiser of images from N(0, s²) leaves the posterior's variance of x0, s²σ²/(α²s² + σ²)."""
    schedule, variance = NoiseSchedule.named(name, 200), 0.3
    alpha2, sigma2 = schedule.alphas_cumprod.numpy(), 1 - schedule.alphas_cumprod.numpy()
    whole = alpha2 * variance + sigma2
    expected = {"epsilon": alpha2 * variance / whole, "v": variance / whole, "x0": variance * sigma2 / whole}
    for space, loss in expected.items():
        np.testing.assert_allclose(expected["epsilon"] * space_factor(space, schedule), loss, rtol=1e-9)
    assert set(expected) == set(SPACES)


def test_errors_of_one_answer_are_converted_as_its_predictions_are():
    schedule = NoiseSchedule.linear(60)
    generator = torch.Generator().manual_seed(0)
    x0, epsilon, answer = torch.randn(3, 60, 5, generator=generator, dtype=torch.float64)
    alpha, sigma = schedule.alpha[:, None], schedule.sigma[:, None]
    found = to_x0("epsilon", answer, alpha * x0 + sigma * epsilon, alpha, sigma)
    error = (answer - epsilon).square().mean(1).numpy()
    for space, prediction in SPACES.items():
        truth, moved = target(prediction, x0, epsilon, alpha, sigma), target(prediction, found, answer, alpha, sigma)
        np.testing.assert_allclose(error * space_factor(space, schedule), (moved - truth).square().mean(1), rtol=1e-9)


NAMES = ("loss_over_timesteps", "loss_over_log_snr", "x0_loss_over_log_snr")
SCHEDULES = ("linear", "cosine", "scaled_linear")


def of_log_snr(log_snr: np.ndarray) -> NoiseSchedule:
    """The schedule with these λ: α² = 1/(1 + e^−λ)."""
    power = torch.from_numpy(1 / (1 + np.exp(-log_snr)))
    return NoiseSchedule("made", power.sqrt(), (1 - power).sqrt())


def same(table: np.ndarray, draws: int = 3) -> Errors:
    return Errors(*(np.repeat(table[:, None], draws, axis=1),) * 2)


def drawn(seed: int, timesteps: int = 40, draws: int = 20) -> Errors:
    generator = np.random.default_rng(seed)
    return Errors(*(generator.gamma(2.0, size=(timesteps, draws)) for _ in range(2)))


def falling(seed: int, timesteps: int) -> np.ndarray:
    return np.sort(np.random.default_rng(seed).uniform(-11, 12, timesteps))[::-1].copy()


@given(st.integers(0, 2**32 - 1))
def test_the_mean_over_all_log_snr_is_scipys(seed):
    log_snr, errors = falling(seed, 60), drawn(seed, 60)
    found = endpoints(of_log_snr(log_snr))["loss_over_log_snr"]
    expected = -integrate.trapezoid(errors.epsilon.mean(1), log_snr) / (log_snr[0] - log_snr[-1])
    assert found.of(errors)[0] == pytest.approx(expected, rel=1e-6)
    assert found.interval == pytest.approx((log_snr[-1], log_snr[0]))


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_mean_of_x0_is_scipys_quadrature_between_the_two_ends(name):
    schedule, errors = NoiseSchedule.named(name, 200), drawn(0, 200)
    log_snr = schedule.snr.log().numpy()
    found = endpoints(schedule)["x0_loss_over_log_snr"]
    low, high = max(-4, log_snr[-1]), min(9, log_snr[0])
    line = interpolate.interp1d(log_snr, errors.x0.mean(1))
    inside = log_snr[(low < log_snr) & (log_snr < high)]
    expected, _ = integrate.quad(line, low, high, points=inside, limit=1000)
    assert found.of(errors)[0] == pytest.approx(expected / (high - low), rel=1e-6)
    assert found.interval == pytest.approx((low, high))


@pytest.mark.parametrize(
    ("highest", "lowest", "interval"), [(12, -11, (-4, 9)), (6, -11, (-4, 6)), (12, 2, (2, 9)), (6, 2, (2, 6))]
)
def test_the_interval_is_what_the_schedule_reaches_of_it(highest, lowest, interval):
    schedule = of_log_snr(np.linspace(highest, lowest, 50))
    assert endpoints(schedule)["x0_loss_over_log_snr"].interval == pytest.approx(interval)


def test_an_end_between_two_timesteps_is_cut_exactly():
    """The line from 0 at λ = −2 to 12 at λ = 10 has the mean 2 between −1 and 1."""
    weights, interval = log_snr_weights(of_log_snr(np.array([10.0, -2.0])), Interval(-1, 1))
    assert interval == (-1, 1)
    assert weights @ [12, 0] == pytest.approx(2)


def test_standard_errors_are_those_of_independent_strata():
    errors, schedule = drawn(0), NoiseSchedule.linear(40)
    for endpoint in endpoints(schedule).values():
        table = getattr(errors, endpoint.error)
        expected = np.linalg.norm(endpoint.weights * stats.sem(table, axis=1))
        assert endpoint.of(errors)[1] == pytest.approx(expected)


def test_the_change_between_two_models_is_paired():
    before, schedule = drawn(0), NoiseSchedule.linear(40)
    noise = np.random.default_rng(1).normal(0.9, 0.01, before.x0.shape)
    after = Errors(before.epsilon * noise, before.x0 * noise)
    for endpoint in endpoints(schedule).values():
        change, error = endpoint.change(before, after)
        assert change == pytest.approx(endpoint.of(after)[0] / endpoint.of(before)[0] - 1)
        assert error < endpoint.of(before)[1] / endpoint.of(before)[0] / 20
        assert endpoint.change(before, before) == (0, 0)
    # Uniform weights are none.
    found = endpoints(schedule)["loss_over_timesteps"].change(before, after)
    assert found == pytest.approx(relative_change(before.epsilon, after.epsilon))


def test_shares_of_wins_are_those_of_the_bin():
    shares = win_shares(np.array([[1, 3, 0], [0, 0, 0], [2, 2, 4]]), np.array([0, 0, 1, 2]))
    np.testing.assert_array_equal(shares[[0, 1, 3]], [[0.25, 0.75, 0], [0.25, 0.75, 0], [0.25, 0.25, 0.5]])
    assert np.isnan(shares[2]).all()


def with_a_hole(bad: float) -> np.ndarray:
    return np.where(np.arange(150).reshape(5, 30) == 97, bad, losses(0))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: LossProfile.of(with_a_hole(np.nan)), "the loss profile holds nan at t = 3; losses are finite"),
        (lambda: relative_change(losses(1), with_a_hole(np.inf)), "the loss profile holds inf at t = 3; losses are f"),
        *((lambda shape=shape: LossProfile.of(np.ones(shape)), "are no profile") for shape in (5, (5, 1), (5, 0))),
        (lambda: excess_profile(losses(0), losses(0, draws=20)), "losses of shape [5, 30] and optimal-denoiser losse"),
        (lambda: relative_change(losses(0), losses(0, timesteps=4)), "of shapes [5, 30] and [4, 30] are not of the s"),
        (lambda: endpoints(of_log_snr(np.linspace(30, 10, 30))), "none of them between -4 and 9, where"),
        (lambda: endpoints(of_log_snr(np.linspace(-5, -20, 30))), "none of them between -4 and 9, where"),
        (
            lambda: endpoints(NoiseSchedule.linear(40))["loss_over_log_snr"].of(drawn(0, 30)),
            "errors of 30 timesteps have no mean by a schedule of 40",
        ),
    ],
)
def test_what_has_no_mean_or_error_is_refused(make, said):
    assert said in refusal(make)
