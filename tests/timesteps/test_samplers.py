"""Timestep samplers: drawn distributions, exact counts, and weights that undo the probabilities."""

import json
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from one_line import refusal
from scipy import stats

from unequal.diffusion.schedule import NoiseSchedule
from unequal.timesteps.draws import LowDiscrepancy, Mirrored, Stratified, equal_over
from unequal.timesteps.learning import AdaptiveSampler, EasyToHardSampler, LossSecondMomentSampler
from unequal.timesteps.partition import Interleaved, Partition, TimestepRange
from unequal.timesteps.samplers import (
    TimestepSampler,
    WeightedSampler,
    even_over_log_snr,
    normalised,
    of_length,
    tilt,
    uniform,
    within,
)

T = 60
SCHEDULE = NoiseSchedule.linear(T)
SLOTS = Partition([(0, 3), (4, 9), (10, 24), (25, 39), (40, 59)])
LENGTHS = SLOTS.lengths
LOSS = np.random.default_rng(3).gamma(2.0, size=T) + 0.05
#: E‖g‖² of each of SLOTS.
MOMENTS = np.array([400.0, 25.0, 9.0, 1.0, 0.25])
ALLOCATION = {"refresh_images": 100, "images_per_bin": 3, "memory": 0.5, "uniform_share": 0.1}


def numbers(size: int, *seed: int) -> np.ndarray:
    """Uniform numbers [4, B] of a batch."""
    return np.random.default_rng(seed).random((4, size))


def second_moment(unbiased: bool = False) -> TimestepSampler:
    sampler = LossSecondMomentSampler(T, history=2, uniform_share=0.001, unbiased=unbiased)
    for _ in range(2):
        sampler.learn(np.arange(T), LOSS)
    return sampler


def adaptive() -> TimestepSampler:
    sampler = AdaptiveSampler(SLOTS, **ALLOCATION)
    sampler.refresh(lambda timesteps: MOMENTS[SLOTS.of(timesteps)], numbers(15, 0)[0])
    return sampler


t = np.arange(T)
#: Kind → how one is built, and the weights of its timesteps by the definition.
SAMPLERS: dict[str, tuple[Callable[..., TimestepSampler], np.ndarray]] = {
    "low_discrepancy": (lambda **kw: TimestepSampler(uniform(T), **kw, draw=LowDiscrepancy()), np.ones(T)),
    "near_noise": (lambda **kw: TimestepSampler(normalised(tilt(T, 1.5)), **kw), (t + 0.5) ** 1.5),
    "slot": (lambda **kw: TimestepSampler(within(TimestepRange(10, 24), T), **kw), ((t >= 10) & (t <= 24)) * 1.0),
    "loss": (lambda **kw: TimestepSampler(normalised(LOSS), **kw), LOSS),
    "stratified": (
        lambda **kw: TimestepSampler(equal_over(SLOTS), **kw, draw=Stratified(SLOTS)),
        np.repeat(1 / LENGTHS, LENGTHS),
    ),
    "mirrored": (
        lambda **kw: TimestepSampler(normalised(LOSS), **kw, draw=Mirrored(np.arange(T)[::-1])),
        LOSS + LOSS[::-1],
    ),
    "loss_second_moment": (second_moment, 0.001 / T + 0.999 * LOSS / LOSS.sum()),
    # In each bin as many times the root of the moment as there are timesteps; a tenth is uniform.
    "adaptive": (
        lambda unbiased=True: adaptive(),
        0.1 / T + 0.9 * np.repeat(np.sqrt(MOMENTS), LENGTHS) / (np.sqrt(MOMENTS) * LENGTHS).sum(),
    ),
}
EVERY = pytest.mark.parametrize("kind", SAMPLERS)
#: Kinds in which every timestep can be drawn.
POSITIVE = [kind for kind in SAMPLERS if kind != "slot"]


def built(kind: str, **changes: bool) -> TimestepSampler:
    return SAMPLERS[kind][0](**changes)


def in_slots(timesteps: np.ndarray) -> np.ndarray:
    return np.bincount(SLOTS.of(timesteps), minlength=len(SLOTS))


def agrees(timesteps: np.ndarray, probabilities: np.ndarray) -> bool:
    counts, possible = np.bincount(timesteps, minlength=T), probabilities > 0
    expected = probabilities[possible] / probabilities.sum() * len(timesteps)
    return counts[~possible].sum() == 0 and stats.chisquare(counts[possible], expected).pvalue > 1e-3


@EVERY
def test_probabilities_are_those_of_the_definition_and_so_are_draws(kind):
    """One timestep of each batch, so that no dependence within a batch spoils the test."""
    sampler, expected = built(kind), SAMPLERS[kind][1]
    np.testing.assert_allclose(sampler.probabilities, expected / expected.sum(), rtol=1e-12)
    drawn = np.array([sampler.sample(numbers(4, 7, seed)).timesteps[0] for seed in range(6000)])
    assert agrees(drawn, expected)


@EVERY
@settings(max_examples=30)
@given(st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_batches_have_the_size_and_the_weights_asked_for(kind, size, seed):
    batch = built(kind).sample(numbers(size, seed))
    assert (batch.timesteps.shape, batch.timesteps.dtype) == ((size,), np.int64)
    assert ((batch.timesteps >= 0) & (batch.timesteps < T)).all()
    if kind != "adaptive":  # which is never without weights
        np.testing.assert_array_equal(batch.weights, np.ones(size))


@pytest.mark.parametrize("kind", POSITIVE)
def test_weighted_expectation_of_anything_is_its_plain_mean(kind):
    sampler = built(kind, unbiased=True)
    np.testing.assert_allclose(sampler.probabilities * sampler.importance(), 1 / T, rtol=1e-12)
    batch = sampler.sample(numbers(8, 0))
    np.testing.assert_allclose(batch.weights, 1 / (T * sampler.probabilities[batch.timesteps]), rtol=1e-12)


@given(st.integers(0, 2**32 - 1), st.integers(1, 20))
def test_half_of_a_batch_mirrors_the_other(seed, pairs):
    mirror = np.where(t < 30, t + 30, t - 30)
    sampler = TimestepSampler(normalised((t < 30) * 1.0), draw=Mirrored(mirror))
    batch = sampler.sample(numbers(2 * pairs, seed)).timesteps
    low, high = np.sort(batch[batch < 30]), np.sort(batch[batch >= 30])
    np.testing.assert_array_equal(low + 30, high)


@given(st.integers(0, 2**32 - 1), st.integers(1, 33))
def test_stratified_takes_the_same_number_from_each_slot(seed, size):
    counts = in_slots(built("stratified").sample(numbers(size, seed)).timesteps)
    whole, rest = divmod(size, len(SLOTS))
    assert sorted(counts) == [whole] * (len(SLOTS) - rest) + [whole + 1] * rest


@pytest.mark.parametrize("size", [2, 13])
def test_remainders_go_to_all_slots_equally_often(size):
    """The batch of 2 is smaller than the number of slots."""
    sampler, batches = built("stratified"), 3000
    counts = sum(in_slots(sampler.sample(numbers(size, 17, seed)).timesteps) for seed in range(batches))
    share = size % len(SLOTS) / len(SLOTS)
    spread = np.sqrt(batches * share * (1 - share))
    assert np.abs(counts - batches * size / len(SLOTS)).max() < 4 * spread


def test_between_other_timesteps_a_sampler_draws_its_own_alike():
    assert within(Interleaved(2, 58, 4), T).tolist() == [1 / 15 if t % 4 == 2 else 0 for t in range(T)]


@given(first=st.integers(0, 29), length=st.integers(20, 30), step=st.sampled_from([1, 2]), intervals=st.integers(1, 3))
def test_each_interval_of_log_snr_can_be_drawn_as_often(first, length, step, intervals):
    drawn = within(Interleaved(first, first + (length - 1) // step * step, step), T)
    found = even_over_log_snr(drawn, SCHEDULE, intervals)
    fall = -SCHEDULE.snr_db.numpy()
    share = (fall - fall[drawn > 0][0]) / np.ptp(fall[drawn > 0])
    for number in range(intervals):
        low, high = (number / intervals if number else -1), (number + 1) / intervals
        inside = (share > low) & (share <= high) & (drawn > 0)
        assert found[inside].sum() == pytest.approx(1 / intervals)
        assert np.ptp(found[inside]) == 0
    assert found[drawn == 0].sum() == 0


def test_the_place_in_a_stratified_batch_says_nothing_of_the_slot():
    """Batches are cut into parts for processes and accumulation: no part may hold the small timesteps alone."""
    sampler = built("stratified")
    drawn = np.stack([sampler.sample(numbers(5, 23, seed)).timesteps for seed in range(3000)])
    for place in range(5):
        assert stats.chisquare(in_slots(drawn[:, place])).pvalue > 1e-3


@given(st.integers(0, 2**32 - 1), st.integers(1, 200))
def test_low_discrepancy_holds_for_other_probabilities_too(seed, size):
    probabilities = LOSS / LOSS.sum()
    drawn = TimestepSampler(probabilities, draw=LowDiscrepancy()).sample(numbers(size, seed)).timesteps
    counts = np.cumsum(np.bincount(drawn, minlength=T))
    assert (np.abs(counts - size * np.cumsum(probabilities)) < 1 + 1e-9).all()


def test_a_cluster_is_opened_when_losses_cease_to_fall_and_the_open_ones_are_drawn_alike():
    sampler, seen = EasyToHardSampler(SLOTS, 30), []
    for loss in (5, 4, 4, 4, 4, 9, 9, 9, 9, 8, 8, 8, 8):  # of batches of ten
        sampler.learn(np.full(10, 50), np.full(10, float(loss)))
        seen.append(int(np.flatnonzero(sampler.probabilities)[0]))
        np.testing.assert_allclose(sampler.probabilities[seen[-1] :], 1 / (T - seen[-1]))
    # Thirty images no lower than the 4, and, of the next stage, than the 9 and the 8.
    assert seen == [40, 40, 40, 40, 25, 25, 25, 25, 10, 10, 10, 10, 4]
    sampler.learn(np.full(30, 50), np.full(30, 9.0))
    for _ in range(9):
        sampler.learn(np.full(30, 50), np.full(30, 9.0))
    np.testing.assert_allclose(sampler.probabilities, 1 / T)
    other = EasyToHardSampler(SLOTS, 30)
    other.load_state_dict(json.loads(json.dumps(sampler.state_dict())))
    np.testing.assert_array_equal(other.probabilities, sampler.probabilities)
    assert [int((p > 0).sum()) for p in other.over_training()] == [20, 35, 50, 56, 60]


@given(st.integers(0, 2**32 - 1), st.integers(1, 100))
def test_an_adaptive_batch_gives_every_bin_its_share_up_to_one(seed, size):
    sampler = adaptive()
    counts = in_slots(sampler.sample(numbers(size, seed)).timesteps)
    expected = size * SLOTS.sums(sampler.probabilities)
    assert (np.abs(counts - expected) < 1 + 1e-9).all()


def test_adaptive_weights_are_bounded_by_the_uniform_share():
    sampler = AdaptiveSampler(SLOTS, **ALLOCATION)
    sampler.refresh(lambda timesteps: 1e12 * (timesteps < 4), numbers(15, 0)[0])
    assert 9 < sampler.importance().max() <= 10 + 1e-9


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: within(TimestepRange(50, 60), T), "timesteps 50 … 60 are no range within 0 … 59"),
        (lambda: even_over_log_snr(uniform(T), SCHEDULE, 59), "sampler.intervals: 59 of equal log-SNR, of which"),
        (lambda: built("slot", unbiased=True), "unbiased: true cannot be had where p = 0, as at t = 0"),
        (lambda: of_length(LOSS[:-1], T), "the profile has 59 timesteps, the model 60"),
        (lambda: of_length(np.full((T, 2), np.inf), T), "the loss profile holds inf at t = 0; losses are finite"),
        (lambda: normalised(np.zeros(T)), "timestep weights must be finite, not negative and not all 0"),
    ],
)
def test_samplers_that_cannot_be_are_refused(make, complaint):
    assert refusal(make).startswith(complaint)


def test_weights_on_uniform_draws_expect_what_plain_draws_expect():
    density, gradients = normalised(LOSS), np.random.default_rng(0).normal(size=T)
    sampler = WeightedSampler(density)
    assert (sampler.probabilities * sampler.importance() * gradients).sum() == pytest.approx(
        (density * gradients).sum()
    )
    batch = sampler.sample(numbers(5000, 1))
    np.testing.assert_array_equal(batch.weights, (T * density)[batch.timesteps])
    assert np.bincount(batch.timesteps, minlength=T).min() > 40  # of 83 expected
