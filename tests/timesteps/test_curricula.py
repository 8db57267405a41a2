"""Timestep probabilities that change: normalised always, uniform at first, no spike, a share for everyone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.randomness import numpy_generator
from unequal.timesteps.curricula import asymmetric, curriculum, difficulty_clusters, easy_to_hard, gaussian_target
from unequal.timesteps.samplers import build_sampler

T = 1000
SCHEDULE = NoiseSchedule.linear(T)
ALPHAS = SCHEDULE.alphas_cumprod.numpy()
TARGETS = ("noise_rate", "gaussian")


@given(
    st.sampled_from(TARGETS),
    st.integers(1, 10**6),
    st.floats(0, 0.99),
    st.integers(0, 10**7),
    st.floats(0, 0.99),
    st.floats(0.01, 2),
)
def test_a_curriculum_is_a_distribution_with_a_floor(target, ramp, floor, seen, mean, std):
    changing = curriculum(ALPHAS, target=target, ramp_images=ramp, floor=floor, mean=mean, std=std)
    p = changing.at(seen)
    assert p.sum() == pytest.approx(1)
    assert (p >= floor / T - 1e-15).all()
    # λ never exceeds 1: past the ramp nothing moves.
    np.testing.assert_array_equal(changing.at(max(seen, ramp)), changing.at(ramp))


@pytest.mark.parametrize("target", TARGETS)
def test_a_curriculum_begins_uniform_and_ends_at_its_target(target):
    changing = curriculum(ALPHAS, target=target, ramp_images=100, floor=0.1, mean=0.3, std=0.2)
    np.testing.assert_allclose(changing.at(0), 1 / T)
    half, whole = changing.at(50), changing.at(100)
    np.testing.assert_allclose(half, (1 / T + whole) / 2)
    assert changing.horizon == 100


def test_the_noise_rate_target_falls_towards_noise_and_follows_its_formula():
    p = curriculum(ALPHAS, target="noise_rate", ramp_images=1, floor=0.0).at(1)
    assert (np.diff(p) < 0).all()
    hardness = 1 - np.sqrt(1 - ALPHAS)
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


def test_difficulty_clusters_are_equal_intervals_of_log_snr_from_noise_to_data():
    member = difficulty_clusters(ALPHAS, 5)
    assert (np.diff(member) <= 0).all()
    assert member[-1] == 0
    assert member[0] == 4
    log_snr = SCHEDULE.snr.log().numpy()
    width = (log_snr.max() - log_snr.min()) / 5
    for cluster in range(5):
        inside = log_snr[member == cluster]
        assert inside.max() - inside.min() <= width * (1 + 1e-9)


def test_easy_to_hard_opens_one_cluster_a_phase_and_ends_uniform():
    changing = easy_to_hard(ALPHAS, clusters=5, phase_images=10)
    opened = [int((changing.at(seen) > 0).sum()) for seen in range(0, 60, 10)]
    assert opened == sorted(opened)
    assert opened[0] == int((difficulty_clusters(ALPHAS, 5) == 0).sum())
    np.testing.assert_allclose(changing.at(changing.horizon), 1 / T)
    assert changing.at(9)[0] == 0


def test_a_changing_sampler_draws_what_it_says_and_needs_no_state():
    sampler = build_sampler(
        "curriculum", T, alphas_cumprod=ALPHAS, target="gaussian", ramp_images=100, floor=0.0, mean=0.3, std=0.02
    )
    late = sampler.sample(2000, numpy_generator(1), images_seen=100).timesteps
    assert abs(late.mean() - 300) < 5 * 20 / np.sqrt(2000)
    again = sampler.sample(2000, numpy_generator(1), images_seen=100).timesteps
    np.testing.assert_array_equal(late, again)
    early = sampler.sample(2000, numpy_generator(1), images_seen=0).timesteps
    assert early.std() > 250
    assert sampler.state_dict() == {}


def test_importance_weights_follow_the_probabilities_of_the_moment():
    sampler = build_sampler(
        "curriculum", T, alphas_cumprod=ALPHAS, target="noise_rate", ramp_images=100, floor=0.2, unbiased=True
    )
    for seen in (0, 30, 100):
        np.testing.assert_allclose(sampler.importance(seen) * sampler.at(seen), 1 / T)


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ({"target": "noise_rate", "ramp_images": 0, "floor": 0.1}, "a ramp of 0 images"),
        ({"target": "noise_rate", "ramp_images": 1, "floor": 1.0}, "floor 1.0; allowed"),
        ({"target": "gaussian", "ramp_images": 1, "floor": 0.1, "mean": 1.0}, "allowed: mean in"),
    ],
)
def test_impossible_curricula_are_refused(shape, said):
    with pytest.raises(UserError, match=said):
        build_sampler("curriculum", T, alphas_cumprod=ALPHAS, **shape)


def test_more_clusters_than_the_schedule_can_fill_are_refused():
    with pytest.raises(UserError, match="holds no timestep"):
        easy_to_hard(NoiseSchedule.linear(30).alphas_cumprod.numpy(), clusters=25, phase_images=1)
