"""The posterior against Bayes' rule, DDPM's sampler in diffusers, and DDIM with all its noise."""

import pytest
import torch
from diffusers import DDPMScheduler
from torch import Tensor

from unequal.diffusion.ddim import ddim_step
from unequal.diffusion.posterior import posterior
from unequal.diffusion.schedule import NoiseSchedule

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
    ratio, x_t, x0 = SCHEDULE.alphas_cumprod, normal(5), normal(6)
    found = posterior(SCHEDULE)
    for t in (1, 9, T - 1):
        mean = ddim_step(x_t, x0, float(ratio[t]), float(ratio[t - 1]), 1.0, torch.zeros_like(x_t))
        torch.testing.assert_close(mean, float(found.x0[t]) * x0 + float(found.x_t[t]) * x_t, atol=1e-5, rtol=1e-4)
