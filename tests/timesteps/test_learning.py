"""Learned samplers: loss histories as in improved-diffusion, and the allocation of least variance."""

import json
from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from one_line import refusal

from unequal.timesteps.learning import AdaptiveSampler, EasyToHardSampler, LossSecondMomentSampler, least_variance
from unequal.timesteps.partition import Partition

BINS = Partition([(0, 1), (2, 7), (8, 19)])
seeds = st.integers(0, 2**32 - 1)


def by_losses(timesteps: int, history: int, share: float = 0.1, **more: np.ndarray) -> LossSecondMomentSampler:
    return LossSecondMomentSampler(timesteps, history=history, uniform_share=share, unbiased=False, **more)


@given(seeds, st.integers(1, 5), st.integers(0, 60))
def test_a_history_keeps_the_last_losses_of_each_timestep(seed, length, draws):
    generator = np.random.default_rng(seed)
    history, expected = by_losses(4, length), [deque[float](maxlen=length) for _ in range(4)]
    for _ in range(draws):
        timesteps, losses = generator.integers(4, size=3), generator.gamma(1.0, size=3)
        history.learn(timesteps, losses)
        for t, loss in zip(timesteps, losses, strict=True):
            expected[t].append(loss)
    assert history.warm == all(len(kept) == length for kept in expected)
    if not history.warm:
        np.testing.assert_array_equal(history.probabilities, np.full(4, 0.25))
        return
    size = np.array([np.mean(np.square(kept)) ** 0.5 for kept in expected])
    np.testing.assert_allclose(history.probabilities, 0.1 / 4 + 0.9 * size / size.sum(), rtol=1e-12)


def test_losses_that_are_no_numbers_are_left_out():
    clean, spoiled = (by_losses(3, 1, known=np.array([[1.0], [2.0], [3.0]])) for _ in range(2))
    spoiled.learn(np.array([0, 1, 2]), np.array([np.nan, np.inf, -np.inf]))
    np.testing.assert_array_equal(spoiled.probabilities, clean.probabilities)


def variance(gradients: list[np.ndarray], probabilities: np.ndarray) -> float:
    """Variance of one importance-weighted draw over all possible draws: bin k's gradients [n_k, P] in turn."""
    total = sum(len(bin) for bin in gradients)
    mean = sum(bin.sum(0) for bin in gradients) / total
    second = 0.0
    for bin, p in zip(gradients, probabilities, strict=True):
        weight = len(bin) / total / p
        second += p * np.mean([np.square(weight * gradient - mean).sum() for gradient in bin])
    return second


@settings(max_examples=25)
@given(seeds)
def test_the_allocation_over_bins_has_the_least_variance(seed):
    generator = np.random.default_rng(seed)
    gradients = [
        generator.normal(generator.normal(size=5), generator.gamma(0.5) * 3, size=(size, 5)) for size in (2, 6, 12)
    ]
    shares = np.array([2, 6, 12]) / 20
    moments = np.array([np.square(bin).sum(1).mean() for bin in gradients])
    least = variance(gradients, least_variance(shares, moments))
    mean = np.concatenate(gradients).mean(0)
    assert least == pytest.approx((shares * np.sqrt(moments)).sum() ** 2 - np.square(mean).sum(), rel=1e-9)


def by_gradients(memory: float) -> AdaptiveSampler:
    return AdaptiveSampler(BINS, refresh_images=1, images_per_bin=1, memory=memory, uniform_share=0.1)


def measure(sampler: AdaptiveSampler, *squares: float) -> None:
    sampler.refresh(lambda _: np.array(squares), np.zeros(len(squares)))


def test_timesteps_of_a_bin_are_measured_equally_often():
    asked: list[np.ndarray] = []

    def recorded(timesteps: np.ndarray) -> np.ndarray:
        asked.append(timesteps.reshape(3, 6000))
        return np.ones(18_000)

    by_gradients(0.5).refresh(recorded, np.random.default_rng(3).random(18_000))
    for row, (first, last) in zip(asked[0], BINS, strict=True):
        counts = np.bincount(row - first, minlength=last - first + 1)
        assert np.abs(counts / 6000 * len(counts) - 1).max() < 5 * np.sqrt(len(counts) / 6000)


def test_estimates_run_and_survive_what_is_no_number():
    sampler = by_gradients(memory=0.75)
    np.testing.assert_allclose(sampler.probabilities, np.full(20, 0.05))
    measure(sampler, 1.0, 3.0, 8.0, 8.0, 0.0, 1.0)
    np.testing.assert_allclose(sampler.moments, [2, 8, 0.5])
    measure(sampler, 6.0, 6.0, np.nan, 1.0, 0.5, 0.5)
    np.testing.assert_allclose(sampler.moments, [3, 8, 0.5])


def test_a_first_measurement_that_is_no_number_takes_the_mean_of_the_others():
    sampler = by_gradients(memory=0.0)
    measure(sampler, 2.0, np.inf, 4.0)
    np.testing.assert_allclose(sampler.moments, [2, 3, 4])


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: by_losses(10, 0), "a history of 0, a uniform share of 0.1; allowed"),
        (lambda: by_losses(10, 3, 1.5), "a history of 3, a uniform share of 1.5; allowed"),
        (lambda: EasyToHardSampler(BINS, 0), "a patience of 0 images; allowed: from 1"),
    ],
)
def test_what_cannot_learn_is_refused(make, complaint):
    assert complaint in refusal(make)


@given(seeds, st.integers(1, 4), st.integers(1, 40))
def test_a_stage_ends_after_a_patience_without_a_lower_loss(seed, stages, patience):
    """Against a count by hand, over every batch since the lowest one; through JSON at each step."""
    clusters = Partition.of_lengths([2] * stages)
    generator, sampler = np.random.default_rng(seed), EasyToHardSampler(clusters, patience)
    since: list[float] = []
    stage = 0
    for _ in range(60):
        losses = generator.integers(1, 6, size=4).astype(float)
        again = EasyToHardSampler(clusters, patience)
        again.load_state_dict(json.loads(json.dumps(sampler.state_dict())))
        sampler = again
        sampler.learn(np.arange(4), losses)
        since.append(losses.mean())
        last = len(since) - since.index(min(since)) - 1
        if stage < stages - 1 and last * 4 >= patience:
            stage, since = stage + 1, []
        assert sampler.stage == stage
