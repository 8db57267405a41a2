"""Clusters of similar timesteps, as multi-task learning has them: 2306.00354 (ANT), section 4.3.

A cluster is a range, its centre the timestep ⌊(first + last)/2⌋, its cost the sum of distances from the centre. What
the distance is of decides what a cluster shares: timesteps, log-SNRs, or the directions of gradients.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.timesteps.partition import Partition

#: What timesteps of a cluster share, where nothing has been measured.
ClusterMetric = Literal["timestep", "log_snr"]
#: And where gradients have been.
GradientClusterMetric = Literal["timestep", "log_snr", "gradients"]
#: Of the images behind a mean gradient: products of different ones are free of the bias that noise gives to lengths.
FOLDS = 4


@dataclass(frozen=True)
class Affinity:
    """Cosines between the gradients of timesteps.

    Attributes:
        cells: of the timesteps, in each of which one mean gradient was measured.
        cosines: between these, [C, C]; see `unequal.measures.gradients.Moments.cosines`.
    """

    cells: Partition
    cosines: np.ndarray


def clusters_by_any(
    likeness: GradientClusterMetric, schedule: NoiseSchedule, count: int, affinity: Affinity | None = None
) -> Partition:
    """Clusters of timesteps by any metric; by gradients where their affinity has been measured.

    Raises:
        UserError: more clusters than timesteps or cells, or cosines that are lost in noise.
    """
    if likeness != "gradients":
        return clusters_by(likeness, schedule, count)
    if affinity is None:
        raise UserError("clusters by gradients need a model to measure these of; allowed: timestep, log_snr")
    return gradient_clusters(affinity, count)


def clusters_by(likeness: ClusterMetric, schedule: NoiseSchedule, count: int) -> Partition:
    """Clusters that are the least spread in t or in log-SNR. Raises UserError for more of them than timesteps."""
    points = schedule.snr.log().cpu().numpy() if likeness == "log_snr" else np.arange(schedule.timesteps)
    return least_cost(distances_between(points), count)[0]


def distances_between(points: np.ndarray) -> np.ndarray:
    """|x_t − x_c| of points x [T], [T, T]."""
    return np.abs(points[:, None] - points)


def least_cost(distances: np.ndarray, count: int) -> tuple[Partition, float]:
    """The partition into clusters of the least cost, and that cost, by dynamic programming.

    D_j(r), the least cost of timesteps 0 … r in j clusters, is the least of D_{j−1}(l − 1) + cost(l, r) over l; sums of
    distances over the first timesteps make each cost one subtraction, so that it all takes O(K·T²).

    Args:
        distances: of timestep t from a centre c, [T, T]; they may be negative.
        count: K, at most T.

    Raises:
        UserError: more clusters than timesteps, or none.
    """
    timesteps = len(distances)
    if not 1 <= count <= timesteps:
        raise UserError(f"{count} clusters of {timesteps} timesteps; allowed: 1 … {timesteps}")
    costs = costs_of(distances)
    least, starts = costs[0], [np.zeros(timesteps, dtype=int)]
    for _ in range(count - 1):
        ways = costs[1:] + least[:-1, None]
        starts.append(ways.argmin(0) + 1)
        least = np.append(np.inf, ways.min(0)[1:])
    lasts = [timesteps - 1]
    for start in reversed(starts[1:]):
        lasts.append(int(start[lasts[-1]]) - 1)
    edges = np.array([-1, *reversed(lasts)])
    return Partition.of_lengths(np.diff(edges).tolist()), float(least[-1])


def costs_of(distances: np.ndarray) -> np.ndarray:
    """cost(l, r) of all ranges l … r, [T, T]; infinite where r < l."""
    sums = np.concatenate([np.zeros((1, len(distances))), distances.cumsum(0)])
    first, last = np.indices(distances.shape)
    centre = (first + last) // 2
    return np.where(last >= first, sums[last + 1, centre] - sums[first, centre], np.inf)


def gradient_clusters(affinity: Affinity, count: int) -> Partition:
    """Clusters of timesteps whose gradients point the same way: the least sum of −cos(g_t, g_centre).

    Args:
        affinity: what was measured.
        count: of clusters, each of whole cells; a cell counts as often as it has timesteps.

    Raises:
        UserError: cosines that are not those of the cells, or not known, or more clusters than cells.
    """
    cells, cosines = affinity.cells, affinity.cosines
    if cosines.shape != (len(cells), len(cells)) or not np.isfinite(cosines).all():
        raise UserError(
            f"cosines {list(cosines.shape)} of {len(cells)} cells; allowed: one of each with each, all known (measure "
            "more images where a mean gradient is lost in noise)"
        )
    found, _ = least_cost(-cosines * cells.lengths[:, None], count)
    return Partition((cells[one.first].first, cells[one.last].last) for one in found)
