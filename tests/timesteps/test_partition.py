"""Partitions of the timesteps: slots of equal loss and equal intervals of log-SNR, against published figures."""

from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from one_line import refusal

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.timesteps.groups import interleaved_groups
from unequal.timesteps.partition import (
    Interleaved,
    Partition,
    TimestepRange,
    distances_between,
    equal_log_snr,
    equal_sums,
    least_cost,
    members_of,
)

#: Table 1 of the slots' paper: guided diffusion on ImageNet-256, ten slots.
TABLE_1 = [(0, 4), (5, 12), (13, 22), (23, 36), (37, 55), (56, 81), (82, 119), (120, 176), (177, 276), (277, 999)]


#: One cell.
WHOLE = Partition([(0, 9)])
LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=20)


def profile_with_equal_sums(ranges: list[tuple[int, int]], seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    parts = [generator.uniform(0.01, 1, last - first + 1) for first, last in ranges]
    return np.concatenate([part / part.sum() for part in parts])


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.floats(1e-6, 1e6))
def test_every_profile_with_the_sums_of_table_1_gives_table_1(seed, scale):
    assert equal_sums(scale * profile_with_equal_sums(TABLE_1, seed), 10) == tuple(TABLE_1)


@pytest.mark.parametrize("convert", [list, torch.tensor, lambda x: np.asarray(x, dtype=np.float32)])
def test_a_flat_profile_is_cut_into_equal_lengths(convert):
    assert equal_sums(convert([0.25] * 12), 4) == ((0, 2), (3, 5), (6, 8), (9, 11))


@given(st.data())
def test_slots_are_those_of_the_definition_in_exact_arithmetic(data):
    losses = data.draw(st.lists(st.integers(0, 30), min_size=1, max_size=60).filter(any))
    slots = data.draw(st.integers(1, len(losses)))
    sums, total = np.cumsum(losses).tolist(), sum(losses)
    member = [int(slots * (Fraction(s) - Fraction(x, 2)) / total) for s, x in zip(sums, losses, strict=True)]
    # Timesteps without loss behind the last one with loss would fall out of the last slot.
    member = [min(slot, slots - 1) for slot in member]
    if set(member) == set(range(slots)):
        found = equal_sums(losses, slots)
        assert [k for k, (first, last) in enumerate(found) for _ in range(first, last + 1)] == member
    else:
        empty = min(set(range(slots)) - set(member))
        with pytest.raises(UserError, match=rf"^of {slots} slots, number {empty + 1} from the data end is empty"):
            equal_sums(losses, slots)


@pytest.mark.parametrize(
    ("loss", "slots", "complaint"),
    [
        ([1.0, float("nan"), 1.0], 2, "the loss profile holds nan at t = 1; losses are finite and not negative"),
        ([1.0, -0.5], 1, "the loss profile holds -0.5 at t = 1"),
        ([0.0, 0.0], 1, "the loss profile is 0 at every timestep; there is nothing to split"),
        ([1.0, 1.0], 3, "3 slots of 2 timesteps; allowed: 1 … 2"),
        ([[1.0, 1.0]], 1, "a loss profile has one dimension, this has 2"),
        ([98.0, 1.0, 1.0], 3, "of 3 slots, number 1 from the data end is empty: the loss of one timestep (T = 3)"),
        ([1.0, 1.0, 98.0], 3, "of 3 slots, number 3 from the data end is empty: the loss of one timestep (T = 3)"),
    ],
)
def test_profiles_that_cannot_be_split_are_refused(loss, slots, complaint):
    assert refusal(equal_sums, loss, slots).startswith(complaint)


@given(LENGTHS, st.integers(0, 2**32 - 1))
def test_a_partition_says_the_same_of_its_ranges_in_every_way(lengths, seed):
    found, table = Partition.of_lengths(lengths), np.random.default_rng(seed).normal(size=sum(lengths))
    assert found.lengths.tolist() == lengths and found.timesteps == sum(lengths)
    assert found.shares.sum() == pytest.approx(1)
    assert [len(range(first, last + 1)) for first, last in found] == lengths
    expected = [number for number, length in enumerate(lengths) for _ in range(length)]
    assert found.members.tolist() == found.of(np.arange(sum(lengths))).tolist() == expected
    assert all(found[number].holds(t) for t, number in enumerate(expected))
    np.testing.assert_allclose(found.sums(table), np.bincount(expected, table), atol=1e-9)
    assert Partition(list(found)) == found


@given(st.integers(1, 40), st.integers(1, 9), st.data())
def test_interleaved_timesteps_are_those_of_one_remainder(length, stride, data):
    first = data.draw(st.integers(0, stride - 1))
    found = Interleaved(first, first + (length - 1) * stride, stride)
    table = np.arange(found.last + 5)
    held = [t for t in table if t % stride == first and t <= found.last]
    np.testing.assert_array_equal(table[found.slice], held)
    assert found.length == len(held)


@settings(max_examples=20)
@given(LENGTHS, st.integers(2, 9))
def test_every_timestep_has_one_member_in_ranges_and_between_them(lengths, count):
    ranges = Partition.of_lengths(lengths)
    np.testing.assert_array_equal(members_of(ranges, ranges.timesteps, "experts"), ranges.members)
    timesteps = count + sum(lengths)
    woven = [one.range for one in interleaved_groups(timesteps, count, 1.0)]
    np.testing.assert_array_equal(members_of(woven, timesteps, "experts"), np.arange(timesteps) % count)


@pytest.mark.parametrize(
    ("chosen", "complaint"),
    [
        ([Interleaved(0, 8, 2), Interleaved(1, 7, 2)], "do not cover timesteps 0 … 9 once each"),
        ([Interleaved(0, 8, 2), TimestepRange(1, 9)], "hold a timestep twice"),
        ([Interleaved(0, 10, 2), Interleaved(1, 9, 2)], "do not cover timesteps 0 … 9 once each"),
    ],
)
def test_timesteps_without_one_member_are_refused(chosen, complaint):
    assert refusal(members_of, chosen, 10, "experts") == f"experts {[list(one) for one in chosen]} {complaint}"


@given(LENGTHS, st.integers(1, 9))
def test_parts_of_ranges_keep_their_borders_and_are_as_equal_as_can_be(lengths, parts):
    found = Partition.of_lengths(lengths)
    finer = found.split(parts)
    assert {one.first for one in found} <= {one.first for one in finer}
    assert len(finer) == sum(min(parts, length) for length in lengths)
    for number in range(len(found)):
        inside = finer.lengths[found.of(finer.firsts) == number]
        assert inside.max() - inside.min() <= 1


@pytest.mark.parametrize(
    ("ranges", "shown"),
    [
        ([(0, 3), (5, 9)], "slots [[0, 3], [5, 9]] do not cover timesteps 0 … 9 once each"),
        ([(0, 4), (5, 4), (5, 9)], "slots [[0, 4], [5, 4], [5, 9]] do not cover timesteps 0 … 9 once each"),
        ([], "slots [] are no ranges of timesteps"),
    ],
)
def test_ranges_that_are_no_partition_are_refused(ranges, shown):
    assert refusal(Partition, ranges, "slots") == shown


def test_a_partition_of_another_t_is_refused():
    said = "the slots end at t = 9, the model at t = 19: they are of another T"
    assert refusal(Partition([(0, 9)]).covering, 20) == said


def test_empty_intervals_are_dropped_or_refused():
    """The cosine's last timestep lies alone, far below the others."""
    schedule = NoiseSchedule.cosine(1000)
    assert len(equal_log_snr(schedule, 10, drop_empty=True)) == 9
    with pytest.raises(UserError, match=r"^of 10 bins, number 9 from the data end is empty: schedule 'cosine' jumps"):
        equal_log_snr(schedule, 10, "bins")


def test_a_schedule_that_halves_the_odds_has_intervals_of_equal_length():
    """ᾱ/(1−ᾱ) = 2^(3.5−t) for eight timesteps: four intervals of two timesteps each."""
    ratio = 2.0 ** (3.5 - torch.arange(8, dtype=torch.float64))
    cumulative = ratio / (1 + ratio)
    schedule = NoiseSchedule("halving", cumulative.sqrt(), (1 - cumulative).sqrt())
    assert equal_log_snr(schedule, 4).lengths.tolist() == [2, 2, 2, 2]


def test_clusters_of_log_snr_are_the_known_ones():
    """Clusters by SNR itself are single timesteps."""
    snr = NoiseSchedule.linear(1000).snr.numpy()
    found, cost = least_cost(distances_between(np.log(snr)), 5)
    assert [one.last for one in found] == [152, 393, 623, 822, 999]
    assert cost == pytest.approx(781.74, abs=0.005)
    assert [one.last for one in least_cost(distances_between(snr), 5)[0]] == [0, 1, 4, 17, 999]


@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_no_partition_costs_less(seed, count):
    distances = np.random.default_rng(seed).normal(size=(9, 9))

    def cost(cuts: tuple[int, ...]) -> float:
        ranges = pairwise([0, *cuts, 9])
        return sum(distances[first:end, (first + end - 1) // 2].sum() for first, end in ranges)

    every = list(combinations(range(1, 9), count - 1))
    found, least = least_cost(distances, count)
    assert least == pytest.approx(min(map(cost, every)), abs=1e-9)
    assert cost(tuple(one.first for one in found[1:])) == pytest.approx(least, abs=1e-9)
    assert (len(found), found.timesteps) == (count, 9)


def test_more_clusters_than_timesteps_are_refused():
    assert "10 clusters of 9 timesteps; allowed: 1 … 9" in refusal(lambda: least_cost(np.zeros((9, 9)), 10))
