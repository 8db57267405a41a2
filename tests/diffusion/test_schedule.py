"""Noise schedules against diffusers, closed forms and the identities that every schedule obeys."""

import math

import pytest
import torch
from diffusers import DDPMScheduler
from hypothesis import given, settings
from hypothesis import strategies as st
from one_line import refusal

from unequal.diffusion.schedule import Flow, NoiseSchedule
from unequal.errors import UserError

NAMES = ("linear", "cosine", "scaled_linear")
SCHEDULES = st.builds(NoiseSchedule.named, st.sampled_from(NAMES), st.integers(21, 3000))
# diffusers computes its tables in float32: a thousand factors, the last of the cosine as small as 1e-3.
FLOAT32 = {"rtol": 3e-4, "atol": 1e-9}


@pytest.mark.parametrize("timesteps", [250, 1000])
@pytest.mark.parametrize(
    ("name", "theirs", "first", "last"),
    [
        ("linear", "linear", 1e-4, 0.02),
        ("scaled_linear", "scaled_linear", 0.0015, 0.0195),
        ("cosine", "squaredcos_cap_v2", None, None),
    ],
)
def test_alphas_cumprod_are_those_of_diffusers(name, theirs, first, last, timesteps):
    scale = 1000 / timesteps
    ends = {} if first is None or last is None else {"beta_start": first * scale, "beta_end": last * scale}
    expected = DDPMScheduler(num_train_timesteps=timesteps, beta_schedule=theirs, **ends).alphas_cumprod.double()
    torch.testing.assert_close(NoiseSchedule.named(name, timesteps).alphas_cumprod, expected, **FLOAT32)


def test_linear_betas_run_from_1e_4_to_002_and_end_at_the_known_value():
    schedule = NoiseSchedule.linear(1000)
    assert schedule.betas[[0, -1]].tolist() == pytest.approx([1e-4, 0.02], rel=1e-12)
    log_product = math.fsum(math.log1p(-(1e-4 + (0.02 - 1e-4) * t / 999)) for t in range(1000))
    assert schedule.alphas_cumprod[-1].item() == pytest.approx(math.exp(log_product), rel=1e-10)
    assert schedule.alphas_cumprod[-1].item() == pytest.approx(4.0358e-5, rel=1e-4)


@pytest.mark.parametrize("timesteps", [50, 1000])
def test_cosine_is_its_closed_form_up_to_the_clipped_end(timesteps):
    def f(t: int) -> float:
        return math.cos((t / timesteps + 0.008) / 1.008 * math.pi / 2) ** 2

    table = NoiseSchedule.cosine(timesteps).alphas_cumprod
    expected = torch.tensor([f(t + 1) / f(0) for t in range(timesteps - 1)], dtype=torch.float64)
    torch.testing.assert_close(table[:-1], expected, rtol=1e-10, atol=0)
    assert table[-1].item() == pytest.approx(expected[-1].item() * 1e-3, rel=1e-9)


@settings(max_examples=40)
@given(SCHEDULES)
def test_signal_and_noise_share_one_variance_and_the_signal_falls(schedule):
    assert schedule.alphas_cumprod.dtype == torch.float64
    torch.testing.assert_close(schedule.alpha**2 + schedule.sigma**2, torch.ones(schedule.timesteps).double())
    assert bool((schedule.alphas_cumprod.diff() < 0).all())
    assert bool((schedule.snr_db.diff() < 0).all())
    assert 0 < schedule.alphas_cumprod[-1] < schedule.alphas_cumprod[0] < 1


@settings(max_examples=40)
@given(SCHEDULES, st.data())
def test_snr_in_decibels_is_twenty_logs_of_the_amplitudes(schedule, data):
    t = data.draw(st.integers(0, schedule.timesteps - 1))
    alpha, sigma = schedule.alpha[t].item(), schedule.sigma[t].item()
    assert schedule.snr_db[t].item() == pytest.approx(20 * (math.log10(alpha) - math.log10(sigma)), abs=1e-6)
    assert schedule.snr[t].item() == pytest.approx(10 ** (schedule.snr_db[t].item() / 10), rel=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_at_gives_a_column_for_each_image_in_its_own_precision(dtype):
    schedule, t = NoiseSchedule.linear(100), torch.tensor([0, 99, 7])
    found = schedule.at(t, torch.zeros(3, 2, 4, 4, dtype=dtype))
    for column, table in zip(found, (schedule.alpha, schedule.sigma), strict=True):
        assert column.dtype == dtype
        assert torch.equal(column, table[t].to(dtype).reshape(3, 1, 1, 1))


@pytest.mark.parametrize(
    ("name", "timesteps", "complaint"),
    [
        ("sigmoid", 1000, "schedule 'sigmoid' is unknown; allowed: linear, cosine, scaled_linear"),
        ("linear", 20, "schedule 'linear' with 20 timesteps has betas outside (0, 1); use more timesteps"),
        ("scaled_linear", 10, "schedule 'scaled_linear' with 10 timesteps has betas outside (0, 1)"),
    ],
)
def test_schedules_that_cannot_be_are_refused(name, timesteps, complaint):
    assert refusal(lambda: NoiseSchedule.named(name, timesteps)).startswith(complaint)


@pytest.mark.parametrize("schedule", [Flow(50), NoiseSchedule.linear(50)], ids=lambda one: one.name)
def test_the_forward_process_leads_from_one_timestep_to_the_next(schedule):
    """x_t = scale·x_{t−1} + √variance·ε has the signal and the noise of its timestep."""
    scale, added = schedule.forward_scale, schedule.forward_variance
    assert float(scale[0]) == pytest.approx(schedule.level(0).alpha)
    assert float(added[0]) == pytest.approx(schedule.level(0).sigma ** 2)
    torch.testing.assert_close(scale[1:] * schedule.alpha[:-1], schedule.alpha[1:])
    torch.testing.assert_close(scale[1:] ** 2 * schedule.noise_power[:-1] + added[1:], schedule.noise_power[1:])


def test_only_what_preserves_variance_has_betas():
    with pytest.raises(UserError, match=r"^schedule 'flow' has no betas, which are needed here: it does not preserve"):
        _ = Flow(50).betas


@pytest.mark.parametrize(
    ("alpha", "sigma"),
    [([0.9, 0.0], [0.1, 1.0]), ([0.9, 0.1], [0.0, 0.9]), ([0.5, 0.5], [0.5, 0.5]), ([0.1, 0.9], [0.9, 0.1])],
)
def test_tables_without_signal_or_noise_or_fall_are_refused(alpha, sigma):
    with pytest.raises(UserError, match=r"^schedule 'odd': α and σ must be above 0, and α/σ must fall from timestep"):
        NoiseSchedule("odd", torch.tensor(alpha), torch.tensor(sigma))
