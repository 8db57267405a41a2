"""The posterior against Bayes' rule, DDPM's sampler in diffusers, and DDIM with all its noise."""

import math

import pytest
import torch
from diffusers import DDPMScheduler
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import Normal, kl_divergence

from unequal.diffusion.posterior import (
    VariationalBound,
    discretised_log_likelihood,
    large_share,
    posterior,
    posterior_between,
)
from unequal.diffusion.predictions import add_noise
from unequal.diffusion.schedule import Level, NoiseSchedule

T = 40
SCHEDULE = NoiseSchedule.linear(T)
#: The 256 values of a pixel in the model's range.
VALUES = torch.arange(256, dtype=torch.float64) / 127.5 - 1


def drawn(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape or (4, 2, 3, 3), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_posterior_is_what_diffusers_samples_from():
    scheduler = DDPMScheduler(T, trained_betas=SCHEDULE.betas.numpy(), prediction_type="sample", clip_sample=False)
    found, x_t, x0 = posterior(SCHEDULE), drawn(5).float(), drawn(6).float()
    for t in (0, 3, 20):
        # The variance is added from the generator: without it, the step is the mean.
        stepped = scheduler.step(x0, t, x_t, generator=torch.Generator().manual_seed(0)).prev_sample
        spread = scheduler._get_variance(t) ** 0.5 if t else 0.0
        noise = torch.randn(x_t.shape, generator=torch.Generator().manual_seed(0))
        mean = float(found.x0[t]) * x0 + float(found.x_t[t]) * x_t
        torch.testing.assert_close(mean, stepped - spread * noise, atol=1e-4, rtol=1e-4)


def test_a_straight_path_has_the_known_coefficients():
    """α + σ = 1, from s = 0.7 to 0.4."""
    found = posterior_between(Level(0.3, 0.7), Level(0.6, 0.4))
    assert tuple(found) == pytest.approx((0.5510, 0.1633, 0.1469), abs=5e-5)


@given(st.floats(0.05, 1), st.floats(0.05, 1), st.floats(0.05, 0.95), st.floats(0.05, 0.95))
def test_for_any_path_it_is_bayes_rule(alpha, sigma, shrunk, grown):
    """Precisions of x' by x_t = (α/α')·x' + √g·ε and by x0 add, and means are weighted by them."""
    after, now = Level(alpha, sigma), Level(alpha * shrunk, sigma / grown)
    kept = now.alpha / after.alpha
    added = now.sigma**2 - kept**2 * after.sigma**2
    precision = kept**2 / added + 1 / after.sigma**2
    expected = (after.alpha / after.sigma**2 / precision, kept / added / precision, 1 / precision)
    assert tuple(posterior_between(now, after)) == pytest.approx(expected, rel=1e-9)


def test_tables_are_the_steps_from_each_timestep_to_the_one_before():
    s = (torch.arange(T).double() + 0.5) / T
    flow = NoiseSchedule("flow", 1 - s, s)
    found = posterior(flow)
    for t in (1, 7, T - 1):
        step = posterior_between(flow.level(t), flow.level(t - 1))
        assert [float(table[t]) for table in found] == pytest.approx(list(step), rel=1e-9)
    assert [float(table[0]) for table in found] == pytest.approx([1, 0, 0], abs=1e-12)


@given(st.floats(-1.5, 1.5), st.floats(-7, 1))
def test_probabilities_of_all_pixel_values_sum_to_one(mean, log_std):
    logs = discretised_log_likelihood(VALUES, torch.full_like(VALUES, mean), torch.full_like(VALUES, log_std))
    assert float(logs.exp().sum()) == pytest.approx(1, abs=1e-9)


def test_probability_of_a_bin_is_the_normal_distribution_of_it():
    mean, std = 0.1, 0.05
    logs = discretised_log_likelihood(VALUES, torch.full_like(VALUES, mean), torch.full_like(VALUES, math.log(std)))
    edges = Normal(mean, std).cdf(torch.cat([VALUES - 1 / 255, VALUES[-1:] + 1 / 255]))
    inner = (edges[1:] - edges[:-1])[90:200]  # beyond, differences of the cdf have no digits left
    torch.testing.assert_close(logs.exp()[90:200], inner, atol=1e-12, rtol=1e-6)


def test_a_pixel_far_from_the_mean_is_improbable_and_no_infinity():
    x = torch.tensor([0.0, 1.0, -1.0, 254 / 127.5 - 1], requires_grad=True)
    log_std = torch.full((4,), -5.0, requires_grad=True)
    found = discretised_log_likelihood(x, torch.tensor([0.9, -0.9, 0.9, -0.9]), log_std)
    assert torch.isfinite(found).all()
    assert (found < -1000).all()
    found.sum().backward()
    assert log_std.grad is not None
    assert (log_std.grad > 0).all()  # a wider distribution makes them more probable


@pytest.mark.parametrize("t", [1, 2, 17, T - 1])
def test_variance_is_read_as_diffusers_reads_it(t):
    scheduler = DDPMScheduler(T, trained_betas=SCHEDULE.betas.numpy(), variance_type="learned_range")
    output = drawn(5).float()
    known = scheduler._get_variance(t, predicted_variance=output)
    found = VariationalBound(SCHEDULE).log_variance(output, torch.full((4,), t))
    torch.testing.assert_close(found, known, atol=1e-4, rtol=1e-4)


def test_variance_lies_between_the_posteriors_and_beta():
    bound, ones = VariationalBound(SCHEDULE), torch.ones(T, 1, 1, 1, dtype=torch.float64)
    small, large = (bound.log_variance(o * ones, torch.arange(T)).flatten().exp() for o in (-1, 1))
    torch.testing.assert_close(large, SCHEDULE.betas)
    torch.testing.assert_close(small[1:], posterior(SCHEDULE).variance[1:])
    # The first step has no variance; IDDPM takes the second's in its place.
    assert float(small[0]) == float(small[1])
    assert large_share(torch.tensor([-1.0, 0.0, 1.0])).tolist() == [0, 0.5, 1]


def term(t: int, predicted: Tensor, output: Tensor, x0: Tensor, x_t: Tensor) -> Tensor:
    return VariationalBound(SCHEDULE).term(x0, x_t, predicted, output, torch.full((len(x0),), t))


def test_a_term_is_the_divergence_from_the_posterior_in_bits():
    t, x0, epsilon, predicted, output = 9, drawn(1).clamp(-1, 1), drawn(2), drawn(3), drawn(4)
    alphas_bar = torch.cumprod(1 - SCHEDULE.betas, 0)
    x_t = alphas_bar[t].sqrt() * x0 + (1 - alphas_bar[t]).sqrt() * epsilon
    # q(x_{t−1} | x_t, x0) by Bayes' rule, precisions added; and the same with the predicted x0 and another variance.
    beta = SCHEDULE.betas[t]
    precision = (1 - beta) / beta + 1 / (1 - alphas_bar[t - 1])

    def mean(image: Tensor) -> Tensor:
        towards = (1 - beta).sqrt() / beta * x_t + alphas_bar[t - 1].sqrt() / (1 - alphas_bar[t - 1]) * image
        return towards / precision

    share = (output + 1) / 2
    std = beta ** (share / 2) * (1 / precision) ** ((1 - share) / 2)
    known = kl_divergence(Normal(mean(x0), precision**-0.5), Normal(mean(predicted), std))
    torch.testing.assert_close(term(t, predicted, output, x0, x_t), known.mean((1, 2, 3)) / math.log(2))


def test_the_first_timesteps_term_is_a_code_length_of_the_image():
    x0, x_t, predicted, output = VALUES[torch.arange(72) * 3].reshape(4, 2, 3, 3), drawn(1), drawn(2) / 50, drawn(3)
    std = (VariationalBound(SCHEDULE).log_variance(output, torch.zeros(4, dtype=torch.int64)) / 2).exp()
    lower = torch.where(x0 < -0.999, -torch.inf, x0 - 1 / 255)
    upper = torch.where(x0 > 0.999, torch.inf, x0 + 1 / 255)
    likely = x0.abs() < 0.1  # elsewhere the cdf's difference has no digits left
    known = -(Normal(predicted, std).cdf(upper) - Normal(predicted, std).cdf(lower)).log2()
    bits = VariationalBound(SCHEDULE).term(
        *(image.reshape(-1, 1, 1, 1) for image in (x0, x_t, predicted, output)), torch.zeros(72, dtype=torch.int64)
    )
    torch.testing.assert_close(bits[likely.flatten()], known[likely], atol=1e-6, rtol=1e-5)
    assert likely.sum() > 5


def test_timesteps_of_a_batch_do_not_mix():
    x0, epsilon, predicted, output = drawn(1).clamp(-1, 1), drawn(2), drawn(3), drawn(4)
    t = torch.tensor([0, 3, 0, 39])
    x_t = add_noise(x0, epsilon, *SCHEDULE.at(t, x0))
    whole = VariationalBound(SCHEDULE).term(x0, x_t, predicted, output, t)
    for i, one in enumerate(t.tolist()):
        part = slice(i, i + 1)
        torch.testing.assert_close(term(one, predicted[part], output[part], x0[part], x_t[part]), whole[part])


def test_the_whole_bound_of_a_perfect_prediction_is_nothing_but_the_last_code():
    """Where x0 is known and the variance is the posterior's, no step costs anything but that to 8-bit pixels."""
    x0 = VALUES[torch.arange(40 * 9) % 256].reshape(T, 1, 3, 3)
    t = torch.arange(T)
    x_t = add_noise(x0, drawn(1, T, 1, 3, 3), *SCHEDULE.at(t, x0))
    terms = VariationalBound(SCHEDULE).term(x0, x_t, x0, -torch.ones_like(x0), t)
    torch.testing.assert_close(terms[1:], torch.zeros(T - 1, dtype=torch.float64), atol=1e-12, rtol=0)
    assert float(terms[0]) > 0
