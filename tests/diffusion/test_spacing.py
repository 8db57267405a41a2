"""Where sampling steps are placed: by published levels, by equal parts of what they go by, and never twice."""

import numpy as np
import pytest
import torch
from diffusers import DDIMScheduler
from hypothesis import given
from hypothesis import strategies as st
from one_line import refusal

from unequal.diffusion.schedule import Flow, NoiseSchedule
from unequal.diffusion.spacing import SPACINGS, log_ratios, sampling_timesteps, spaced_timesteps
from unequal.settings.evaluation import Spacing

LINEAR = NoiseSchedule.linear(1000)


def dense(low: float, high: float, points: int = 20_000) -> NoiseSchedule:
    """Ratios r = σ/α from low to high, close to each other."""
    ratios = torch.logspace(np.log10(low), np.log10(high), points, dtype=torch.float64)
    return NoiseSchedule("dense", 1 / (1 + ratios**2).sqrt(), ratios / (1 + ratios**2).sqrt())


def test_levels_are_those_of_edm():
    """r_i = (80^(1/7) + i/17·(0.002^(1/7) − 80^(1/7)))^7: r_1 = 57.586, r_9 = 1.9233 of 18."""
    schedule = dense(0.002, 80.0)
    chosen = spaced_timesteps(18, schedule, "edm")
    ratios = np.exp(log_ratios(schedule))[chosen]
    assert ratios[[0, 1, 9, 17]] == pytest.approx([80, 57.586, 1.9233, 0.002], rel=1e-3)


@pytest.mark.parametrize("shift", [1.0, 3.0])
def test_levels_between_the_ends_of_a_flow_are_the_known_ones(shift):
    known = [999, 998, 997, 996, 992, 986, 970, 934, 845, 642, 323, 85, 10, 0]
    assert spaced_timesteps(15, Flow(1000, shift), "edm") == known


def test_equal_log_snr_is_equal():
    chosen = spaced_timesteps(20, dense(0.01, 100.0), "log_snr")
    assert np.ptp(np.diff(chosen)) <= 1


def test_steps_of_a_profile_are_equal_parts_of_its_area():
    """Losses r²/(1 + r²) = 1/(1 + SNR) have the area ½·ln(1 + r²) over ln r."""
    schedule = dense(0.01, 100.0)
    losses = 1 / (1 + schedule.snr.numpy())
    chosen = spaced_timesteps(11, schedule, "profile", losses)
    area = 0.5 * np.log1p(1 / schedule.snr.numpy())[chosen]
    assert np.diff(area) == pytest.approx(np.full(10, (area[-1] - area[0]) / 10), rel=2e-3)


def test_with_the_best_losses_for_normal_data_the_rescaled_profile_is_their_optimum():
    """2404.14507's figures for standard deviation ½, noise levels 80 … 0.002 and ten steps."""
    schedule = dense(0.002, 80.0)
    losses = 1 / (1 + 4 / schedule.snr.numpy())
    chosen = spaced_timesteps(11, schedule, "rescaled_profile", losses)
    ratios = schedule.snr.numpy()[chosen] ** -0.5
    assert ratios[[1, 5]] == pytest.approx([3.0535, 0.4989], rel=2e-3)
    assert np.diff(np.arctan(2 * ratios)) == pytest.approx(
        np.full(10, np.arctan(2 * 0.002) - np.arctan(160)) / 10, rel=2e-3
    )


@given(st.integers(1, 300), st.sampled_from(Spacing.__args__), st.sampled_from(["linear", "cosine", "scaled_linear"]))
def test_steps_fall_from_one_end_to_the_other_without_repetition(steps, spacing, name):
    schedule = NoiseSchedule.named(name, 300)
    chosen = spaced_timesteps(steps, schedule, spacing, np.linspace(1.0, 0.1, 300))
    assert chosen[0] == 299
    assert len(chosen) == 1 or chosen[-1] == 0
    assert (np.diff(chosen) < 0).all()
    assert all(type(t) is int for t in chosen)
    assert len(chosen) <= steps and (len(chosen) == steps or spacing in SPACINGS)


def test_listed_timesteps_stay_as_they_are():
    assert spaced_timesteps((900, 20, 3), LINEAR, None) == [900, 20, 3]


@pytest.mark.parametrize(
    ("spacing", "losses", "said"),
    [
        ("even", None, "spacing 'even' is unknown; allowed: uniform, quadratic, log_snr, edm"),
        ("profile", None, "none was measured"),
        ("profile", np.ones(5), "losses of 1000 timesteps; given: 5"),
    ],
)
def test_what_is_asked_for_and_not_there_is_refused(spacing, losses, said):
    assert said in refusal(spaced_timesteps, 10, LINEAR, spacing, losses)


def test_the_settings_know_every_spacing():
    assert set(Spacing.__args__) == {"uniform", "quadratic", *SPACINGS}


@pytest.mark.parametrize("steps", [2, 50, 333, 1000])
def test_uniform_steps_are_the_linspace_of_diffusers(steps):
    theirs = DDIMScheduler(timestep_spacing="linspace")
    theirs.set_timesteps(steps)
    assert sampling_timesteps(steps, 1000) == theirs.timesteps.tolist()


def test_quadratic_steps_are_squares_and_denser_near_the_data():
    assert sampling_timesteps(5, 1601, "quadratic") == [1600, 900, 400, 100, 0]
    gaps = -np.diff(sampling_timesteps(20, 1000, "quadratic"))
    assert (np.diff(gaps) <= 1).all()
    assert gaps[0] > 10 * gaps[-1]


@pytest.mark.parametrize(
    ("steps", "spacing", "complaint"),
    [
        (0, "uniform", "0 sampling steps of 100 timesteps; allowed: 1 … 100"),
        (101, "uniform", "101 sampling steps of 100 timesteps; allowed: 1 … 100"),
        (10, "cubic", "spacing 'cubic' is unknown; allowed: uniform, quadratic"),
        ([], "uniform", "sampling timesteps [] must fall strictly within 99 … 0"),
        ([100, 3], "uniform", "sampling timesteps [100, 3] must fall strictly within 99 … 0"),
        ([5, -1], "uniform", "sampling timesteps [5, -1] must fall strictly within 99 … 0"),
        ([5, 5], "uniform", "sampling timesteps [5, 5] must fall strictly within 99 … 0"),
    ],
)
def test_steps_that_cannot_be_are_refused(steps, spacing, complaint):
    assert refusal(sampling_timesteps, steps, 100, spacing) == complaint
