"""Clusters of least cost: the known ones, and the best of all partitions where all can be tried."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.timesteps.partition import (
    Affinity,
    Partition,
    clusters_by_any,
    distances_between,
    gradient_clusters,
    least_cost,
)

SNR = NoiseSchedule.linear(1000).snr.numpy()


def lasts(partition: Partition) -> list[int]:
    return [one.last for one in partition]


def test_clusters_of_log_snr_are_the_known_ones() -> None:
    found, cost = least_cost(distances_between(np.log(SNR)), 5)
    assert lasts(found) == [152, 393, 623, 822, 999]
    assert cost == pytest.approx(781.74, abs=0.005)


def test_snr_itself_makes_clusters_of_single_timesteps() -> None:
    assert lasts(least_cost(distances_between(SNR), 5)[0]) == [0, 1, 4, 17, 999]


@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_no_partition_costs_less(seed: int, count: int) -> None:
    distances = np.random.default_rng(seed).normal(size=(9, 9))

    def cost(cuts: tuple[int, ...]) -> float:
        ranges = pairwise([0, *cuts, 9])
        return sum(distances[first:end, (first + end - 1) // 2].sum() for first, end in ranges)

    every = list(combinations(range(1, 9), count - 1))
    found, least = least_cost(distances, count)
    assert least == pytest.approx(min(map(cost, every)), abs=1e-9)
    assert cost(tuple(one.first for one in found[1:])) == pytest.approx(least, abs=1e-9)
    assert (len(found), found.timesteps) == (count, 9)


def test_cells_whose_gradients_agree_are_one_cluster() -> None:
    cells = Partition([(0, 4), (5, 9), (10, 29), (30, 49), (50, 59)])
    near = np.array([0.0, 0.1, 1.4, 1.5, 1.6])  # directions in a plane
    cosines = np.cos(near[:, None] - near)
    assert gradient_clusters(Affinity(cells, cosines), 2) == Partition([(0, 9), (10, 59)])


@pytest.mark.parametrize(("lengths", "first"), [([10, 10, 10], (0, 9)), ([10, 1, 100], (0, 10))])
def test_cells_count_by_their_timesteps(lengths: list[int], first: tuple[int, int]) -> None:
    """The middle cell is 0.6 of the first one's and 0.9 of the last: with the first it loses 0.4 of its own timesteps,
    with the last 0.1 of that one's."""
    cosines = np.array([[1.0, 0.6, 0.6], [0.6, 1.0, 0.9], [0.6, 0.9, 1.0]])
    assert gradient_clusters(Affinity(Partition.of_lengths(lengths), cosines), 2)[0] == first


def test_clusters_that_cannot_be_are_refused() -> None:
    with pytest.raises(UserError, match=r"^10 clusters of 9 timesteps; allowed: 1 … 9$"):
        least_cost(np.zeros((9, 9)), 10)
    with pytest.raises(UserError, match=r"^cosines \[2, 2\] of 1 cells; allowed: one of each with each, all known"):
        gradient_clusters(Affinity(Partition([(0, 9)]), np.eye(2)), 1)
    with pytest.raises(UserError, match="measure more images where a mean gradient is lost in noise"):
        gradient_clusters(Affinity(Partition([(0, 9)]), np.array([[np.nan]])), 1)
    with pytest.raises(UserError, match=r"^clusters by gradients need a model to measure these of; allowed: timestep"):
        clusters_by_any("gradients", NoiseSchedule.linear(50), 2)
