"""AdaTS: a policy that sees images, taught by what the bound has fallen by, and what teaching it costs."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.feature_selection import f_regression

from unequal.diffusion.posterior import posterior
from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.timesteps.policy import CHOSEN, KEPT, PolicySampler, bound_factors, most_telling

SCHEDULE = NoiseSchedule.linear(1000)
SNR = SCHEDULE.snr.numpy()
IMAGES = torch.linspace(-1, 1, 8).reshape(8, 1, 1, 1).repeat(1, 3, 4, 4)


def sampler(**changed: int) -> PolicySampler:
    return PolicySampler(SNR, **{"refresh_images": 5120} | changed)


def taught(times: int = 1) -> PolicySampler:
    """One for whose images of step after step every loss has fallen by the brighter the image, the more."""
    one, generator = sampler(), np.random.default_rng(0)
    for _ in range(times):
        timesteps = one.sample(8, generator, images=lambda: IMAGES).timesteps
        one.before_step(lambda images, t: 1 + t / 1000, 8, generator)
        one.after_step(lambda images, t: 0.5 + images / 8 + t / 2000, IMAGES, timesteps)
    return one


def test_before_it_has_learned_timesteps_are_uniform() -> None:
    many = torch.zeros(20_000, 1, 2, 2)
    batch = sampler().sample(len(many), np.random.default_rng(0), images=lambda: many)
    assert stats.kstest(batch.timesteps / 999, "uniform").pvalue > 0.01
    assert (batch.timesteps.min(), batch.timesteps.max()) == (0, 999)
    np.testing.assert_array_equal(batch.weights, np.ones(len(many)))


def test_a_measurement_of_the_papers_batch_costs_18_per_cent() -> None:
    """2·(1000 + 3·128) forward passes every 40 steps of 128 images, each of which is three passes."""
    assert sampler().cost(128) == 923
    assert sampler().cost(128) / (40 * 128) == pytest.approx(0.18, abs=0.001)


def test_errors_count_in_the_bound_as_the_posterior_says() -> None:
    """The divergence of two normal distributions of one variance, that of the posterior, is their distance over it."""
    found = posterior(SCHEDULE)
    expected = (found.x0**2 / found.variance / 2 / SCHEDULE.snr).numpy()[1:]
    np.testing.assert_allclose(bound_factors(SNR)[1:], expected, rtol=1e-6)


@given(st.integers(0, 2**32 - 1), st.integers(4, KEPT))
def test_timesteps_are_chosen_by_the_f_test(seed: int, steps: int) -> None:
    generator = np.random.default_rng(seed)
    changes = generator.normal(size=(steps, 12)) * generator.gamma(1.0, size=12)
    scores, _ = f_regression(changes, changes.sum(1))
    assert set(most_telling(changes, 3)) == set(np.argsort(-scores)[:3])


def test_what_never_changes_tells_nothing() -> None:
    changes = np.random.default_rng(0).normal(size=(5, 6)) * np.array([0, 1, 0, 1, 1, 0])
    assert most_telling(changes, 3).tolist() == [1, 3, 4]


def test_a_policy_draws_more_where_steps_have_helped() -> None:
    one, noisy = sampler(), np.full(8, 900)
    before = one.policy_for(IMAGES).mean.mean()
    for _ in range(10):
        one.reinforce(IMAGES, noisy, np.ones(8))
    assert one.policy_for(IMAGES).mean.mean() > before + 0.05


def test_it_tells_images_apart() -> None:
    one, halves = sampler(), np.array([50] * 4 + [950] * 4)
    for _ in range(60):
        one.reinforce(IMAGES, halves, np.ones(8))
    means = one.policy_for(IMAGES).mean.tolist()
    assert means[0] < 0.4 < 0.6 < means[-1]


def test_the_bound_is_measured_of_few_timesteps_of_all_images_and_of_all_of_one() -> None:
    one, asked = sampler(), []

    def losses(images: np.ndarray, timesteps: np.ndarray) -> np.ndarray:
        asked.append((images, timesteps))
        return np.full(len(images), 2.0 - len(asked))

    one.sample(8, np.random.default_rng(1), images=lambda: IMAGES)
    one.before_step(losses, 8, np.random.default_rng(0))
    one.after_step(losses, IMAGES, np.arange(8))
    (images, timesteps), again = asked
    assert len(images) == CHOSEN * 8 + 1000
    np.testing.assert_array_equal(timesteps, again[1])
    assert len(set(zip(images[:24].tolist(), timesteps[:24].tolist(), strict=True))) == 24
    assert set(timesteps[:24]) == set(one.chosen)
    np.testing.assert_array_equal(timesteps[24:], np.arange(1000))
    np.testing.assert_allclose(one.changes, bound_factors(SNR)[None])


def test_what_errors_count_in_losses_is_taken_out() -> None:
    one = sampler()
    one.set_loss_weights(np.full(1000, 4.0))
    one.sample(8, np.random.default_rng(1), images=lambda: IMAGES)
    one.before_step(lambda images, t: np.ones(len(t)), 8, np.random.default_rng(0))
    one.after_step(lambda images, t: np.zeros(len(t)), IMAGES, np.arange(8))
    np.testing.assert_allclose(one.changes[0], bound_factors(SNR) / 4)


def test_what_is_no_number_teaches_nothing() -> None:
    one = taught()
    state = one.state_dict()
    one.before_step(lambda images, t: np.ones(len(t)), 8, np.random.default_rng(0))
    one.after_step(lambda images, t: np.full(len(t), np.nan), IMAGES, np.arange(8))
    assert one.state_dict() == state


def test_no_more_steps_are_kept_than_are_looked_at() -> None:
    assert taught(KEPT + 2).changes.shape == (KEPT, 1000)


def test_what_was_learned_survives_json() -> None:
    one, other = taught(4), sampler()
    other.load_state_dict(json.loads(json.dumps(one.state_dict())))
    for policy in (one, other):
        policy.reinforce(IMAGES, np.arange(8), np.ones(8))
    assert one.state_dict() == other.state_dict() != taught(4).state_dict()
    drawn = [policy.sample(8, np.random.default_rng(3), images=lambda: IMAGES).timesteps for policy in (one, other)]
    np.testing.assert_array_equal(*drawn)
    fresh = sampler()
    fresh.load_state_dict(sampler().state_dict())
    assert fresh.state_dict() == {}


def test_samplers_that_cannot_be_are_refused() -> None:
    with pytest.raises(UserError, match="a policy of 1000 timesteps that learns every 0 images; allowed: from 3, from"):
        sampler(refresh_images=0)
    with pytest.raises(UserError, match="timesteps by a policy are drawn for images, and there are none"):
        sampler().sample(8, np.random.default_rng(0))
