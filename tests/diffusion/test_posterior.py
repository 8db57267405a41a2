"""The posterior against Bayes' rule, DDPM's sampler in diffusers, and DDIM with all its noise."""

import pytest
import torch
from diffusers import DDPMScheduler
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from unequal.diffusion.posterior import posterior, posterior_between
from unequal.diffusion.schedule import Level, NoiseSchedule
from unequal.diffusion.solvers import ddim_step

T = 40
SCHEDULE = NoiseSchedule.linear(T)


def normal(seed: int) -> Tensor:
    return torch.randn(3, 2, 4, 4, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", ["linear", "cosine", "scaled_linear"])
def test_the_posterior_is_bayes_rule(name: str) -> None:
    """q(x_{t−1} | x_t, x0) ∝ q(x_t | x_{t−1})·q(x_{t−1} | x0): precisions add, means are weighted by them."""
    schedule = NoiseSchedule.named(name, T)
    found, ratio = posterior(schedule), schedule.alphas_cumprod
    for t in (1, 7, T - 1):
        keep, before = 1 - schedule.betas[t], ratio[t - 1]
        precision = keep / schedule.betas[t] + 1 / (1 - before)
        torch.testing.assert_close(found.x0[t], before.sqrt() / (1 - before) / precision)
        torch.testing.assert_close(found.x_t[t], keep.sqrt() / schedule.betas[t] / precision)
        torch.testing.assert_close(found.variance[t], 1 / precision)
    # The step from t = 0 ends at x0 itself.
    assert (float(found.x0[0]), float(found.x_t[0]), float(found.variance[0])) == (pytest.approx(1), 0, 0)


def test_the_posterior_is_what_diffusers_samples_from() -> None:
    scheduler = DDPMScheduler(T, trained_betas=SCHEDULE.betas.numpy(), prediction_type="sample", clip_sample=False)
    found, x_t, x0 = posterior(SCHEDULE), normal(5), normal(6)
    for t in (0, 3, 20):
        # The variance is added from the generator: without it, the step is the mean.
        stepped = scheduler.step(x0, t, x_t, generator=torch.Generator().manual_seed(0)).prev_sample
        spread = scheduler._get_variance(t) ** 0.5 if t else 0.0
        drawn = torch.randn(x_t.shape, generator=torch.Generator().manual_seed(0))
        mean = float(found.x0[t]) * x0 + float(found.x_t[t]) * x_t
        torch.testing.assert_close(mean, stepped - spread * drawn, atol=1e-4, rtol=1e-4)


def test_a_step_with_all_its_noise_has_the_mean_of_the_posterior() -> None:
    """DDIM at η = 1 over every timestep is DDPM, so that Fig. 3b speaks about the samples here."""
    x_t, x0 = normal(5), normal(6)
    found = posterior(SCHEDULE)
    for t in (1, 9, T - 1):
        mean = ddim_step(x_t, x0, SCHEDULE.level(t), SCHEDULE.level(t - 1), 1.0, torch.zeros_like(x_t))
        torch.testing.assert_close(mean, float(found.x0[t]) * x0 + float(found.x_t[t]) * x_t, atol=1e-5, rtol=1e-4)


def test_a_straight_path_has_the_known_coefficients() -> None:
    """α + σ = 1, from s = 0.7 to 0.4."""
    found = posterior_between(Level(0.3, 0.7), Level(0.6, 0.4))
    assert tuple(found) == pytest.approx((0.5510, 0.1633, 0.1469), abs=5e-5)


@given(st.floats(0.05, 1), st.floats(0.05, 1), st.floats(0.05, 0.95), st.floats(0.05, 0.95))
def test_for_any_path_it_is_bayes_rule(alpha: float, sigma: float, shrunk: float, grown: float) -> None:
    """Precisions of x' by x_t = (α/α')·x' + √g·ε and by x0 add, and means are weighted by them."""
    after, now = Level(alpha, sigma), Level(alpha * shrunk, sigma / grown)
    kept = now.alpha / after.alpha
    added = now.sigma**2 - kept**2 * after.sigma**2
    precision = kept**2 / added + 1 / after.sigma**2
    expected = (after.alpha / after.sigma**2 / precision, kept / added / precision, 1 / precision)
    assert tuple(posterior_between(now, after)) == pytest.approx(expected, rel=1e-9)


def test_tables_are_the_steps_from_each_timestep_to_the_one_before() -> None:
    s = (torch.arange(T).double() + 0.5) / T
    flow = NoiseSchedule("flow", 1 - s, s)
    found = posterior(flow)
    for t in (1, 7, T - 1):
        step = posterior_between(flow.level(t), flow.level(t - 1))
        assert [float(table[t]) for table in found] == pytest.approx(list(step), rel=1e-9)
    assert [float(table[0]) for table in found] == pytest.approx([1, 0, 0], abs=1e-12)
