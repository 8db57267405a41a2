"""Learned samplers: loss histories as in improved-diffusion, and the allocation of least variance."""

import json
from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from one_line import refusal

from unequal.timesteps.learning import BinLosses, BinMoments, LossHistory, Patience, least_variance
from unequal.timesteps.partition import Partition

BINS = Partition([(0, 1), (2, 7), (8, 19)])
seeds = st.integers(0, 2**32 - 1)


def filled(losses: np.ndarray, length: int, uniform_share: float = 0.001) -> LossHistory:
    """A history that has seen losses [n, T], row by row."""
    history = LossHistory(losses.shape[1], length, uniform_share)
    for row in losses:
        history.record(np.arange(losses.shape[1]), row)
    return history


@given(seeds, st.integers(1, 5), st.integers(0, 60))
def test_a_history_keeps_the_last_losses_of_each_timestep(seed, length, draws):
    generator = np.random.default_rng(seed)
    history, expected = LossHistory(4, length, 0.1), [deque[float](maxlen=length) for _ in range(4)]
    for _ in range(draws):
        timesteps, losses = generator.integers(4, size=3), generator.gamma(1.0, size=3)
        history.record(timesteps, losses)
        for t, loss in zip(timesteps, losses, strict=True):
            expected[t].append(loss)
    assert history.warm == all(len(kept) == length for kept in expected)
    if not history.warm:
        np.testing.assert_array_equal(history.probabilities, np.full(4, 0.25))
        return
    size = np.array([np.mean(np.square(kept)) ** 0.5 for kept in expected])
    np.testing.assert_allclose(history.probabilities, 0.1 / 4 + 0.9 * size / size.sum(), rtol=1e-12)


def test_losses_that_are_no_numbers_are_left_out():
    clean, spoiled = (filled(np.array([[1.0, 2.0, 3.0]]), 1) for _ in range(2))
    spoiled.record(np.array([0, 1, 2]), np.array([np.nan, np.inf, -np.inf]))
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


def test_timesteps_of_a_bin_are_measured_equally_often():
    drawn = BinMoments(BINS, 0.5).draw(np.random.default_rng(3).random(18_000)).reshape(3, 6000)
    for row, (first, last) in zip(drawn, BINS, strict=True):
        counts = np.bincount(row - first, minlength=last - first + 1)
        assert np.abs(counts / 6000 * len(counts) - 1).max() < 5 * np.sqrt(len(counts) / 6000)


def test_estimates_run_and_survive_what_is_no_number():
    moments = BinMoments(BINS, memory=0.75)
    np.testing.assert_allclose(moments.probabilities(0.1), np.full(20, 0.05))
    moments.record(np.array([1.0, 3.0, 8.0, 8.0, 0.0, 1.0]))
    np.testing.assert_allclose(moments.moments, [2, 8, 0.5])
    moments.record(np.array([6.0, 6.0, np.nan, 1.0, 0.5, 0.5]))
    np.testing.assert_allclose(moments.moments, [3, 8, 0.5])


def test_a_first_measurement_that_is_no_number_takes_the_mean_of_the_others():
    moments = BinMoments(BINS, memory=0.0)
    moments.record(np.array([2.0, np.inf, 4.0]))
    np.testing.assert_allclose(moments.moments, [2, 3, 4])


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: LossHistory(10, 0, 0.1), "a history of 0, a uniform share of 0.1; allowed"),
        (lambda: LossHistory(10, 3, 1.5), "a history of 3, a uniform share of 1.5; allowed"),
        (lambda: Patience(0, 1), "0 stages with a patience of 1 images; allowed"),
    ],
)
def test_what_cannot_learn_is_refused(make, complaint):
    assert complaint in refusal(make)


@given(seeds, st.integers(1, 4), st.integers(1, 40))
def test_a_stage_ends_after_a_patience_without_a_lower_loss(seed, stages, patience):
    """Against a count by hand, over every batch since the lowest one; through JSON at each step."""
    generator, pacing = np.random.default_rng(seed), Patience(stages, patience)
    since: list[float] = []
    stage = 0
    for _ in range(60):
        losses = generator.integers(1, 6, size=4).astype(float)
        again = Patience(stages, patience)
        again.load_state_dict(json.loads(json.dumps(pacing.state_dict())))
        pacing = again
        pacing.record(losses)
        since.append(losses.mean())
        last = len(since) - since.index(min(since)) - 1
        if stage < stages - 1 and last * 4 >= patience:
            stage, since = stage + 1, []
        assert pacing.stage == stage


@given(seeds, st.integers(1, 50))
def test_means_of_bins_forget_half_after_as_many_losses_of_their_own(seed, half_life):
    generator, losses = np.random.default_rng(seed), BinLosses(BINS, half_life)
    seen: list[tuple[np.ndarray, np.ndarray]] = []
    for _ in range(4):
        seen.append((generator.integers(8, size=5), generator.gamma(1.0, size=5)))  # none of the last bin
        losses.record(*seen[-1])
    weight, total, later = 0.0, 0.0, 0
    for timesteps, values in reversed(seen):
        here = BINS.of(timesteps) == 1
        weight += here.sum() * 0.5 ** (later / half_life)
        total += values[here].sum() * 0.5 ** (later / half_life)
        later += here.sum()
    assert losses.images == 20
    assert losses.sums[1] == pytest.approx(total, rel=1e-12)
    assert losses.counts.tolist()[1:] == pytest.approx([weight, 0.0], rel=1e-12)


def test_means_of_bins_are_joined_by_a_line():
    """Bins' middles lie at 0.5, 4.5 and 13.5; the last one has no loss, and goes by its neighbour."""
    losses = BinLosses(BINS, 10)
    np.testing.assert_array_equal(losses.along(np.arange(20.0)), np.zeros(20))
    losses.record(np.array([0, 1, 3]), np.array([1.0, 3.0, 4.0]))
    expected = np.concatenate([[2.0], np.linspace(2.25, 3.75, 4), np.full(15, 4.0)])
    np.testing.assert_allclose(losses.along(np.arange(20.0)), expected)
