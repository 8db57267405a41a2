"""DDIM against diffusers where its spacing is right, against DDPM's posterior, and at its invariants."""

import math
from collections.abc import Callable

import pytest
import torch
from diffusers import DDIMScheduler
from hypothesis import given, settings
from hypothesis import strategies as st
from tensors import normal
from torch import Tensor

from unequal.diffusion.predictions import to_x0
from unequal.diffusion.schedule import Flow, Level, NoiseSchedule
from unequal.diffusion.solvers import SOLVERS, ancestral, ddim, ddim_step, network_calls
from unequal.diffusion.spacing import sampling_timesteps

LEVELS = st.builds(Level, st.floats(0.01, 1), st.floats(0.01, 1))
FLOW = Flow(1000)
SEEDS = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize(("steps", "eta"), [(50, 0.0), (10, 0.4), (10, 1.0)])
def test_a_whole_run_is_that_of_diffusers_where_steps_divide_the_timesteps(steps, eta):
    theirs = DDIMScheduler(beta_schedule="linear", timestep_spacing="leading", clip_sample=False)
    theirs.set_timesteps(steps)
    chosen = theirs.timesteps.tolist()
    schedule = NoiseSchedule.linear(1000)
    start = expected = normal(0, 2, 1, 4, 4)
    for i, t in enumerate(chosen):
        noise = normal(i + 1, 2, 1, 4, 4)
        expected = theirs.step(torch.sin(3 * expected), t, expected, eta=eta, variance_noise=noise).prev_sample

    def predict(x_t: Tensor, t: int) -> Tensor:
        return to_x0("epsilon", torch.sin(3 * x_t), x_t, schedule.alpha[t], schedule.sigma[t])

    ours = ddim(start, chosen, schedule, predict, eta, lambda step: normal(step + 1, 2, 1, 4, 4))
    torch.testing.assert_close(ours, expected, rtol=5e-3, atol=5e-3)


@pytest.mark.parametrize("t", [1, 10, 500, 999])
def test_with_eta_1_and_neighbouring_timesteps_it_is_the_posterior_of_ddpm(t):
    """Mean and variance of q(x_{t−1} | x_t, x0) (2006.11239, eqs. 6 and 7)."""
    schedule = NoiseSchedule.linear(1000)
    here, previous, beta = (float(x) for x in (*schedule.alphas_cumprod[[t, t - 1]], schedule.betas[t]))
    x_t, x0, noise = normal(1, 3, 5), normal(2, 3, 5), normal(3, 3, 5)
    mean = (previous**0.5 * beta * x0 + (1 - beta) ** 0.5 * (1 - previous) * x_t) / (1 - here)
    deviation = ((1 - previous) / (1 - here) * beta) ** 0.5
    found = ddim_step(x_t, x0, schedule.level(t), schedule.level(t - 1), 1.0, noise)
    torch.testing.assert_close(found, mean + deviation * noise, rtol=1e-8, atol=1e-10)


@given(LEVELS, LEVELS, st.floats(0, 1), SEEDS)
def test_a_step_keeps_the_distribution_of_noisy_images(one, two, eta, seed):
    """From the true x0 the next image has the noise that its timestep should have: ε and noise add up to σ²."""
    now, after = sorted((one, two), key=lambda level: level.alpha / level.sigma)
    x0, epsilon, noise = normal(seed, 6), normal(seed + 1, 6), normal(seed + 2, 6)
    zero = torch.zeros(6, dtype=torch.float64)
    x_t = now.alpha * x0 + now.sigma * epsilon
    still = ddim_step(x_t, x0, now, after, eta, zero) - after.alpha * x0
    moved = ddim_step(x_t, x0, now, after, eta, noise) - ddim_step(x_t, x0, now, after, eta, zero)
    shares = (still / epsilon).square() + (moved / noise).square()
    torch.testing.assert_close(shares, torch.full_like(shares, after.sigma**2), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("schedule", [NoiseSchedule.cosine(1000), FLOW], ids=lambda one: one.name)
@settings(max_examples=50)
@given(st.lists(st.integers(0, 999), min_size=1, max_size=20, unique=True), SEEDS, st.sampled_from([0.0, 0.5, 1.0]))
def test_a_perfect_denoiser_ends_at_the_image_itself(schedule, listed, seed, eta):
    chosen = sampling_timesteps(sorted(listed, reverse=True), 1000)
    x0, x_t = normal(seed, 2, 3), normal(seed + 1, 2, 3)
    found = ddim(x_t, chosen, schedule, lambda *_: x0, eta, lambda step: normal(seed + step, 2, 3))
    torch.testing.assert_close(found, x0, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_learned_variance_lies_between_the_posteriors_and_beta(share):
    schedule, t, seen = NoiseSchedule.linear(50), 9, list[Tensor]()
    beta = schedule.betas[t]
    posterior = beta * (schedule.sigma[t - 1] / schedule.sigma[t]) ** 2

    def predict(x_t: Tensor, at: int) -> tuple[Tensor, Tensor]:
        seen.append(x_t)
        return torch.zeros_like(x_t), torch.full_like(x_t, share)

    for noise in (torch.zeros(1), torch.ones(1)):
        ancestral(torch.ones(1), [t, t - 1], schedule, predict, lambda _, noise=noise: noise)
    deviation = beta ** (share / 2) * posterior ** ((1 - share) / 2)
    torch.testing.assert_close((seen[3] - seen[1]).squeeze(), deviation.float())


@settings(max_examples=30)
@given(st.integers(1, 50), SEEDS)
def test_a_path_and_its_variance_preserving_twin_end_at_the_same_image(steps, seed):
    """The twin has the same SNR, and x/√(α² + σ²) where the path has x."""
    size = (FLOW.signal_power + FLOW.noise_power).sqrt()
    twin = NoiseSchedule("twin", FLOW.alpha / size, FLOW.sigma / size)
    chosen, start = sampling_timesteps(steps, 1000), normal(seed, 4)
    on_the_path = ddim(start * size[-1], chosen, FLOW, lambda x, t: torch.sin(3 * x / size[t]))
    on_the_twin = ddim(start, chosen, twin, lambda x, t: torch.sin(3 * x))
    torch.testing.assert_close(on_the_path, on_the_twin, rtol=1e-9, atol=1e-9)


#: Data of N(0, ¼).
DEVIATION = 0.5
Predict = Callable[[Tensor, int], Tensor]


def straight(points: int, first: float = 0.999) -> NoiseSchedule:
    """α = 1 − s, σ = s at so many equal steps of s, the last of which would lead to the image."""
    times = first * torch.arange(1, points + 1, dtype=torch.float64) / points
    return NoiseSchedule("straight", 1 - times, times)


def exact(schedule: NoiseSchedule) -> Predict:
    """E[x0 | x_t] of data of N(0, c²): α·c²·x/(α²c² + σ²)."""

    def predict(x: Tensor, t: int) -> Tensor:
        alpha, sigma = schedule.level(t)
        return alpha * DEVIATION**2 * x / (alpha**2 * DEVIATION**2 + sigma**2)

    return predict


def error(solver: str, schedule: NoiseSchedule) -> float:
    alpha, sigma = schedule.level(schedule.timesteps - 1)
    end = DEVIATION / math.hypot(alpha * DEVIATION, sigma)
    start = torch.ones(1, dtype=torch.float64)
    found = SOLVERS[solver](start, range(schedule.timesteps)[::-1], schedule, exact(schedule))
    return float(found) / end - 1


@pytest.mark.parametrize(("solver", "percent"), [("ddim", -13.83), ("heun", 17.90), ("dpm_solver_2m", -0.59)])
def test_ten_steps_of_a_flow_end_where_they_are_known_to(solver, percent):
    assert 100 * error(solver, straight(10)) == pytest.approx(percent, abs=0.005)


@pytest.mark.parametrize(("solver", "order"), [("ddim", 1), ("heun", 2), ("dpm_solver_2m", 2)])
def test_the_error_falls_with_the_order(solver, order):
    """Halving the steps divides the error by 2^order, on a path that ends before the image, where r has no end."""
    schedule = NoiseSchedule.linear(1000)

    def end(steps: int) -> float:
        times = [round(900 - 400 * i / steps) for i in range(steps + 1)]
        start = torch.ones(1, dtype=torch.float64)
        found = []

        def watched(x: Tensor, t: int) -> Tensor:
            found.append((x, t))
            return exact(schedule)(x, t)

        SOLVERS[solver](start, times, schedule, watched)
        return float([x for x, t in found if t == 500][-1])

    (a, s), (b, u) = schedule.level(900), schedule.level(500)
    known = math.hypot(b * DEVIATION, u) / math.hypot(a * DEVIATION, s)
    errors = [abs(end(steps) - known) for steps in (25, 50)]
    assert math.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.35)


@pytest.mark.parametrize("solver", sorted(SOLVERS))
def test_calls_are_counted_as_they_are_made(solver):
    schedule, asked = straight(10), []

    def predict(x: Tensor, t: int) -> Tensor:
        asked.append(t)
        return exact(schedule)(x, t)

    for timesteps in ([9, 6, 3, 0], [5]):
        asked.clear()
        SOLVERS[solver](torch.ones(1, dtype=torch.float64), timesteps, schedule, predict)
        assert asked == network_calls(solver, timesteps)
    assert len(network_calls("heun", range(18))) == 35
