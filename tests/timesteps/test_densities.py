"""Densities as tables: published figures, equivalences between them, and the draws that diffusers makes."""

from collections.abc import Callable
from functools import partial
from inspect import signature

import numpy as np
import pytest
import torch
from diffusers.training_utils import compute_density_for_timestep_sampling
from hypothesis import given, settings
from hypothesis import strategies as st
from one_line import refusal
from scipy import special

from unequal.diffusion.schedule import Flow, NoiseSchedule
from unequal.timesteps.densities import (
    DENSITIES,
    Edges,
    Ends,
    beta,
    beta_cdf,
    cauchy,
    cosmap,
    expit,
    laplace,
    log_normal,
    logit,
    logit_normal,
    masses,
    mode,
    normal_cdf,
    uniform_log_snr,
    uniform_time,
)

T = 1000
FLOW, LINEAR = Flow(T), NoiseSchedule.linear(T)
SCHEDULES = st.builds(Flow, st.integers(21, 500), st.floats(0.1, 12)) | st.builds(
    NoiseSchedule.named, st.sampled_from(["linear", "cosine", "scaled_linear"]), st.integers(21, 500)
)
Density = Callable[[Edges], np.ndarray]


def table(density: Density, schedule: NoiseSchedule = FLOW, shift: float = 1.0, ends: Ends = "open") -> np.ndarray:
    return masses(density, schedule, shift, ends)


def mean(probabilities: np.ndarray) -> float:
    return float(probabilities @ np.arange(len(probabilities)))


@pytest.mark.parametrize(
    ("density", "at", "expected"),
    [
        (logit_normal, (99, 499), (0.3935, 1.5958)),
        (partial(mode, scale=1.29), (99, 499), (0.5012, 3.7919)),
        (cosmap, (0, 499), (0.6373, 1.2732)),
    ],
)
def test_densities_over_times_have_their_known_values(density, at, expected):
    assert (T * table(density))[[*at]] == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(
    ("density", "schedule", "shift", "expected"),
    [
        (logit_normal, FLOW, 1.0, 499.5),
        (logit_normal, FLOW, 3.0, 713.5),
        (log_normal, LINEAR, 1.0, 133.2),
        (laplace, LINEAR, 1.0, 261.1),
        (cauchy, LINEAR, 1.0, 295.4),
        (uniform_log_snr, LINEAR, 1.0, 383.2),
        # λ ~ N(0, 2²)
        (partial(log_normal, mean=0.0, std=1.0), LINEAR, 1.0, 278.8),
    ],
)
def test_densities_have_their_known_means(density, schedule, shift, expected):
    assert mean(table(density, schedule, shift)) == pytest.approx(expected, abs=0.05)


def test_what_lies_beyond_the_ends_is_theirs_or_cut():
    assert table(log_normal, LINEAR)[0] == pytest.approx(0.0038, abs=5e-5)
    assert table(cauchy, LINEAR)[0] == pytest.approx(0.036, abs=5e-4)
    cut = table(cauchy, LINEAR, ends="closed")
    assert cut[0] < 0.1 * table(cauchy, LINEAR)[0]
    assert cut.sum() == pytest.approx(1)


@pytest.mark.parametrize("density", DENSITIES.values(), ids=DENSITIES)
@settings(max_examples=40)
@given(st.sampled_from(["open", "closed"]), SCHEDULES, st.floats(0.2, 5))
def test_every_density_is_one_on_every_schedule(density, ends, schedule, shift):
    needed = {k: 0.6 for k, one in signature(density).parameters.items() if k in ("a", "b")}
    found = table(partial(density, **needed), schedule, shift, ends)
    assert found.shape == (schedule.timesteps,)
    assert found.sum() == pytest.approx(1)
    assert (found >= 0).all()


@given(SCHEDULES, st.floats(-2, 2), st.floats(0.3, 3))
def test_a_logit_normal_time_is_a_log_normal_noise(schedule, middle, std):
    """ln(s/(1 − s)) = ln(σ/α); a flow's own shift moves the noise, and leaves its times."""
    of_noise = middle + np.log(schedule.shift if isinstance(schedule, Flow) else 1.0)
    np.testing.assert_allclose(
        table(partial(logit_normal, mean=middle, std=std), schedule),
        table(partial(log_normal, mean=of_noise, std=std), schedule),
        atol=1e-12,
    )


@given(SCHEDULES, st.floats(0.2, 8))
def test_a_shift_of_a_logit_normal_raises_its_mean(schedule, shift):
    moved = table(partial(logit_normal, mean=float(np.log(shift))), schedule)
    np.testing.assert_allclose(table(logit_normal, schedule, shift), moved, atol=1e-12)


@given(st.floats(0.2, 8))
def test_a_shift_of_a_density_is_one_of_the_schedule(shift):
    """A density over λ with times shifted towards the noise lies where the schedule's own shift would put it."""
    lower = partial(log_normal, mean=-float(np.log(shift)))
    np.testing.assert_allclose(table(lower, Flow(T), shift), table(partial(log_normal, mean=0.0), Flow(T)), atol=1e-12)


@pytest.mark.parametrize(
    ("scheme", "options", "density"),
    [
        ("logit_normal", {"logit_mean": -0.5, "logit_std": 0.8}, partial(logit_normal, mean=-0.5, std=0.8)),
        ("mode", {"mode_scale": 0.81}, partial(mode, scale=0.81)),
        ("mode", {"mode_scale": -0.7}, partial(mode, scale=-0.7)),
        ("none", {}, uniform_time),
    ],
)
def test_diffusers_draws_times_from_the_same_densities(scheme, options, density):
    generator, count = torch.Generator().manual_seed(0), 200_000
    drawn = compute_density_for_timestep_sampling(scheme, count, generator=generator, **options)
    shares = np.histogram(drawn.numpy(), bins=np.linspace(0, 1, 26))[0] / count
    expected = table(density).reshape(25, 40).sum(1)
    np.testing.assert_allclose(shares, expected, atol=5 * np.sqrt(expected.max() / count))


def test_beta_with_parameters_below_one_favours_both_ends():
    found = table(partial(beta, a=0.6, b=0.6))
    np.testing.assert_allclose(found, found[::-1])
    assert found[0] > 5 * found[T // 2]
    # F(s) of Beta(2, 1) is s².
    np.testing.assert_allclose(table(partial(beta, a=2.0, b=1.0)).cumsum(), (np.arange(1, T + 1) / T) ** 2)


@pytest.mark.parametrize("ends", ["open", "closed"])
def test_a_density_with_no_mass_on_the_grid_is_refused(ends):
    said = refusal(table, partial(laplace, mean=60.0), LINEAR, ends=ends)
    assert said.startswith("the density has no mass on the grid: ") and "between log-SNRs of -10.12 and 9.21" in said


SHARES = np.concatenate([[0.0, 1e-300, 1e-9], np.linspace(0.001, 0.999, 999), [1 - 1e-9, 1.0]])


@given(st.floats(0.01, 500), st.floats(0.01, 500))
def test_the_distribution_function_of_beta_is_scipys(a, b):
    assert beta_cdf(SHARES, a, b) == pytest.approx(special.betainc(a, b, SHARES), abs=1e-11)


def test_beta_has_closed_forms():
    assert beta_cdf(SHARES, 1.0, 1.0) == pytest.approx(SHARES, abs=1e-15)
    assert beta_cdf(SHARES, 0.5, 0.5) == pytest.approx(2 / np.pi * np.arcsin(np.sqrt(SHARES)), abs=1e-11)


def test_a_beta_beyond_double_precision_is_refused():
    said = refusal(beta_cdf, SHARES, 1e13, 1e13)
    assert said.startswith("Beta(1e+13, 1e+13) is too narrow") and said.endswith("allowed: a and b up to 1e8")


def test_the_normal_keeps_its_digits_far_below_the_mean():
    x = np.linspace(-35, 35, 701)
    assert normal_cdf(x) == pytest.approx(special.ndtr(x), rel=1e-12)


def test_logit_and_expit_undo_each_other_up_to_the_ends():
    assert expit(logit(SHARES)) == pytest.approx(SHARES, rel=1e-14)
    assert logit(np.array([0.0, 1.0])).tolist() == [-np.inf, np.inf]
