"""Timestep probabilities that change: normalised always, uniform at first, no spike, a share for everyone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from one_line import refusal
from scipy.stats import norm

from unequal.diffusion.schedule import NoiseSchedule
from unequal.randomness import numpy_generator
from unequal.timesteps.densities import asymmetric, curriculum, gaussian_target, mirror, noise_rate_target
from unequal.timesteps.draws import Mirrored
from unequal.timesteps.samplers import ChangingSampler, TimestepSampler

T = 1000
SCHEDULE = NoiseSchedule.linear(T)
TARGETS = st.one_of(
    st.just(noise_rate_target(SCHEDULE)), st.builds(gaussian_target, st.just(T), st.floats(0, 0.99), st.floats(0.01, 2))
)


@given(TARGETS, st.integers(1, 10**6), st.floats(0, 0.99), st.integers(0, 10**7))
def test_in_a_curriculum_every_timestep_keeps_its_share(target, ramp, share, trained):
    changing = curriculum(target, ramp_images=ramp, uniform_share=share)
    p = changing.at(trained)
    assert p.sum() == pytest.approx(1)
    assert (p >= share / T - 1e-15).all()
    # λ never exceeds 1: past the ramp nothing moves.
    np.testing.assert_array_equal(changing.at(max(trained, ramp)), changing.at(ramp))


@given(TARGETS)
def test_a_curriculum_begins_uniform_and_ends_at_its_target(target):
    changing = curriculum(target, ramp_images=100, uniform_share=0.1)
    np.testing.assert_allclose(changing.at(0), 1 / T)
    np.testing.assert_allclose(changing.at(50), (1 / T + changing.at(100)) / 2)
    np.testing.assert_allclose(changing.at(100), 0.1 / T + 0.9 * target)
    assert changing.horizon == 100


def test_the_noise_rate_target_falls_towards_noise_and_follows_its_formula():
    p = noise_rate_target(SCHEDULE)
    assert (np.diff(p) < 0).all()
    hardness = 1 - np.sqrt(1 - np.cumprod(1 - SCHEDULE.betas.numpy()))
    np.testing.assert_allclose(p, hardness / hardness.sum())


@pytest.mark.parametrize("std", [0.05, 0.2, 1.0])
def test_the_gaussian_target_is_the_normal_distribution_without_a_spike(std):
    p = gaussian_target(T, 0.3, std)
    density = norm.pdf(np.arange(T), 0.3 * T, std * T)
    np.testing.assert_allclose(p, density / density.sum(), rtol=1e-9)
    assert int(p.argmax()) == 300
    # A normal of this width nowhere exceeds 1/(σ√(2π)), scaled by what of it lies within 0 … T−1.
    inside = norm.cdf(T, 0.3 * T, std * T) - norm.cdf(0, 0.3 * T, std * T)
    assert p.max() < 1.01 / (std * T * np.sqrt(2 * np.pi) * inside)


def test_asymmetric_is_speeds_step_function():
    p = asymmetric(T, boundary=0.7, ratio=5)
    np.testing.assert_allclose(p[:700], 5 / (T + 700 * (5 - 1)))
    np.testing.assert_allclose(p[700:], 1 / (T + 700 * (5 - 1)))


def test_a_mirror_pairs_timesteps_about_the_642nd_of_the_linear_schedule():
    """By SpeeD's program, with 1e-4 as the slowest rise of σ a step."""
    found = mirror(SCHEDULE)
    assert [int(found[t]) for t in (0, 1, 321, 641, 642, 999)] == [642, 641, 321, 1, 0, 357]
    assert mirror(NoiseSchedule.linear(200)).max() == round(0.642 * 200)


def test_speeds_pairs_come_10_times_as_often_from_below_its_boundary():
    """5 : 1 is what is drawn; whatever is drawn, its mirror image lies below 0.7·T."""
    assert asymmetric(T, boundary=0.7, ratio=5)[:700].sum() == pytest.approx(0.921, abs=5e-4)
    sampler = TimestepSampler(asymmetric(T, boundary=0.7, ratio=5), draw=Mirrored(mirror(SCHEDULE)))
    below = sampler.probabilities[:700].sum()
    assert below == pytest.approx(0.961, abs=5e-4)
    assert (below / 700) / ((1 - below) / 300) == pytest.approx(10.4, abs=0.05)


def test_a_changing_sampler_draws_what_it_says_and_needs_no_state():
    sampler = ChangingSampler(curriculum(gaussian_target(T, 0.3, 0.02), ramp_images=100, uniform_share=0.0))
    late = sampler.sample(numpy_generator(1).random((4, 2000)), images_trained=100).timesteps
    assert abs(late.mean() - 300) < 5 * 20 / np.sqrt(2000)
    again = sampler.sample(numpy_generator(1).random((4, 2000)), images_trained=100).timesteps
    np.testing.assert_array_equal(late, again)
    early = sampler.sample(numpy_generator(1).random((4, 2000)), images_trained=0).timesteps
    assert early.std() > 250
    assert sampler.state_dict() == {}


def test_importance_weights_follow_the_probabilities_of_the_moment():
    changing = curriculum(noise_rate_target(SCHEDULE), ramp_images=100, uniform_share=0.2)
    sampler = ChangingSampler(changing, unbiased=True)
    for seen in (0, 30, 100):
        np.testing.assert_allclose(sampler.importance(seen) * sampler.at(seen), 1 / T)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: curriculum(np.full(T, 1 / T), ramp_images=0, uniform_share=0.1), "a ramp of 0 images"),
        (lambda: curriculum(np.full(T, 1 / T), ramp_images=1, uniform_share=1.0), "uniform share of 1.0; allowed"),
        (lambda: gaussian_target(T, 0.3, 0.0), "std above 0"),
        (lambda: mirror(NoiseSchedule.named("flow", T)), "schedule 'flow': σ rises too fast up to its end to be"),
    ],
)
def test_impossible_curricula_are_refused(make, said):
    assert said in refusal(make)
