"""A partition of all timesteps into contiguous ranges: slots, groups, bins and clusters are partitions.

Clusters hold similar timesteps, as multi-task learning has them: 2306.00354 (ANT), section 4.3. A cluster is a range,
its centre the timestep ⌊(first + last)/2⌋, its cost the sum of distances from the centre. What the distance is of
decides what a cluster shares: timesteps or log-SNRs.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError


class TimestepRange(NamedTuple):
    """Timesteps first … last, both inclusive; t = 0 is nearest the data."""

    first: int
    last: int

    @property
    def length(self) -> int:
        return self.last - self.first + 1

    @property
    def slice(self) -> slice:
        return slice(self.first, self.last + 1)

    def holds(self, timestep: int) -> bool:
        return self.first <= timestep <= self.last


class Interleaved(NamedTuple):
    """Every timestep `stride` after the one before, first, first + stride, … last: all of one remainder."""

    first: int
    last: int
    stride: int

    @property
    def length(self) -> int:
        return (self.last - self.first) // self.stride + 1

    @property
    def slice(self) -> slice:
        return slice(self.first, self.last + 1, self.stride)


#: The timesteps that a model may be meant for.
TimestepSet = TimestepRange | Interleaved


def timesteps_of(first: int, last: int, stride: int) -> TimestepSet:
    """Timesteps first, first + stride, … last; a range where nothing is left out."""
    return TimestepRange(first, last) if stride == 1 else Interleaved(first, last, stride)


def stride_of(chosen: TimestepSet) -> int:
    """Distance of neighbouring timesteps; 1 in a range."""
    return chosen.stride if isinstance(chosen, Interleaved) else 1


class Partition(tuple[TimestepRange, ...]):
    """Contiguous ranges that cover 0 … T−1 once, counted from the data end (0) to the noise end (K−1)."""

    __slots__ = ()

    def __new__(cls, ranges: Iterable[Sequence[int]], what: str = "ranges") -> Self:
        """
        Args:
            ranges: (first, last), both inclusive, in their order.
            what: the ranges are, for a refusal.

        Raises:
            UserError: ranges that do not begin at 0 and follow each other.
        """
        found = [TimestepRange(int(first), int(last)) for first, last in ranges]
        if not found:
            raise UserError(f"{what} [] are no ranges of timesteps")
        starts = [0, *(one.last + 1 for one in found)]
        if any(one.first != start or one.length < 1 for one, start in zip(found, starts, strict=False)):
            shown = [list(one) for one in found]
            raise UserError(f"{what} {shown} do not cover timesteps 0 … {max(starts) - 1} once each")
        return super().__new__(cls, found)

    @classmethod
    def of_lengths(cls, lengths: Iterable[int]) -> Self:
        """Ranges of these lengths, one behind the other."""
        edges = np.cumsum([0, *lengths])
        return cls((first, end - 1) for first, end in pairwise(edges.tolist()))

    @property
    def timesteps(self) -> int:
        return self[-1].last + 1

    @property
    def firsts(self) -> np.ndarray:
        return np.array([one.first for one in self])

    @property
    def lengths(self) -> np.ndarray:
        return np.array([one.length for one in self])

    @property
    def shares(self) -> np.ndarray:
        """The share of all timesteps that each range holds, [K]."""
        return self.lengths / self.timesteps

    @property
    def members(self) -> np.ndarray:
        """The number of the range that holds each timestep, [T]."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def of(self, timesteps: np.ndarray | int) -> np.ndarray:
        """The number of the range that holds each of these timesteps."""
        return np.searchsorted(self.firsts, timesteps, side="right") - 1

    def sums(self, table: np.ndarray) -> np.ndarray:
        """Sums of a table [T] over each range, [K]."""
        return np.array([table[one.slice].sum() for one in self])

    def shares_of(self, table: np.ndarray) -> np.ndarray:
        """The share of the sum of a table [T] that lies in each range, [K]."""
        return self.sums(table) / table.sum()

    def draw(self, chosen: np.ndarray, uniform: np.ndarray) -> np.ndarray:
        """A timestep of each of the chosen ranges [n], uniform within it by numbers [n] in [0, 1), [n] int64."""
        return self.firsts[chosen] + (uniform * self.lengths[chosen]).astype(np.int64)

    def split(self, parts: int) -> "Partition":
        """A finer partition: each range in up to `parts` ranges, as equal as they can be."""
        finer: list[tuple[int, int]] = []
        for one in self:
            edges = np.linspace(one.first, one.last + 1, min(parts, one.length) + 1).round().astype(int)
            finer += [(first, end - 1) for first, end in pairwise(edges.tolist())]
        return Partition(finer)

    def covering(self, timesteps: int, what: str = "slots") -> Self:
        """This partition, or UserError where it is one of another number of timesteps."""
        if self.timesteps != timesteps:
            raise UserError(
                f"the {what} end at t = {self[-1].last}, the model at t = {timesteps - 1}: they are of another T"
            )
        return self


def members_of(chosen: Sequence[TimestepSet], timesteps: int, what: str) -> np.ndarray:
    """The number of the range, or of the interleaved timesteps, that holds each of 0 … T−1, [T].

    Raises UserError where they do not hold each timestep once.
    """
    if all(isinstance(one, TimestepRange) for one in chosen):
        return Partition(chosen, what).covering(timesteps, what).members
    members = np.full(max(timesteps, *(one.last + 1 for one in chosen)), -1)
    for number, one in enumerate(chosen):
        if (members[one.slice] >= 0).any():
            raise UserError(f"{what} {[list(one) for one in chosen]} hold a timestep twice")
        members[one.slice] = number
    if len(members) > timesteps or (members < 0).any():
        raise UserError(f"{what} {[list(one) for one in chosen]} do not cover timesteps 0 … {timesteps - 1} once each")
    return members


def equal_log_snr(schedule: NoiseSchedule, count: int, what: str = "ranges", drop_empty: bool = False) -> Partition:
    """Equal intervals of log-SNR; a timestep on the border of two belongs to the one nearer the data.

    Losses change with SNR, so that within such a range they are of one order.

    Args:
        schedule: gives SNR_t.
        count: of intervals.
        what: the ranges are, for a refusal.
        drop_empty: leave intervals without a timestep out, so that fewer ranges are made.

    Raises:
        UserError: an interval without a timestep, unless those are dropped.
    """
    fall = -schedule.snr_db
    edges = torch.linspace(float(fall[0]), float(fall[-1]), count + 1, dtype=fall.dtype, device=fall.device)
    lengths = torch.bincount(torch.bucketize(fall, edges[1:-1]), minlength=count)
    empty = (lengths == 0).nonzero()
    if len(empty) and not drop_empty:
        i = int(empty[0])
        raise UserError(
            f"of {count} {what}, number {i + 1} from the data end is empty: schedule '{schedule.name}' jumps "
            f"over SNRs between {-edges[i]:.1f} and {-edges[i + 1]:.1f} dB; use fewer {what}"
        )
    return Partition.of_lengths(lengths[lengths > 0].tolist())


#: Slots of guided-diffusion's model of ImageNet-256 (paper 1, Table 1), counted from 0.
TABLE_1 = Partition.of_lengths([5, 8, 10, 14, 19, 26, 38, 57, 100, 723])


def equal_sums(table: Tensor | np.ndarray | Sequence[float], count: int, what: str = "slots") -> Partition:
    """Ranges with the same sum of a loss: the slots of paper 1, Table 1.

    With S_t = Σ_{u≤t} L_u, timestep t belongs to range ⌊K·(S_t − L_t/2)/S_{T−1}⌋.

    Args:
        table: [T], L_t of each timestep, finite and not negative.
        count: K, at most T.
        what: the ranges are, for a refusal.

    Raises:
        UserError: a loss that cannot be split, or an empty range.
    """
    loss = torch.as_tensor(table, dtype=torch.float64)
    if loss.ndim != 1:
        raise UserError(f"a loss profile has one dimension, this has {loss.ndim}")
    if not 1 <= count <= len(loss):
        raise UserError(f"{count} {what} of {len(loss)} timesteps; allowed: 1 … {len(loss)}")
    check_losses(loss.numpy())
    if float(loss.sum()) == 0:
        raise UserError("the loss profile is 0 at every timestep; there is nothing to split")
    middle = torch.cumsum(loss, 0) - loss / 2
    member = (count * middle / loss.sum()).floor().clamp(0, count - 1).long()
    lengths = torch.bincount(member, minlength=count).tolist()
    if 0 in lengths:
        raise UserError(
            f"of {count} {what}, number {lengths.index(0) + 1} from the data end is empty: the loss of one timestep "
            f"(T = {len(loss)}) outweighs its whole share; use fewer {what}"
        )
    return Partition.of_lengths(lengths)


def check_losses(profile: np.ndarray) -> None:
    """Raise UserError where losses [T] are not finite, or negative."""
    bad = np.flatnonzero(~np.isfinite(profile) | (profile < 0))
    if len(bad):
        t = int(bad[0])
        raise UserError(f"the loss profile holds {float(profile[t])} at t = {t}; losses are finite and not negative")


def check_density(density: np.ndarray) -> np.ndarray:
    """Return probabilities [T]. Raises UserError where they are none."""
    array = np.asarray(density)
    if array.ndim != 1 or not array.size or array.dtype.kind not in "fiu":
        raise UserError(f"probabilities of type {array.dtype} and shape {list(array.shape)}; allowed: numbers [T]")
    if len(bad := np.flatnonzero(~np.isfinite(array) | (array < 0))):
        t = int(bad[0])
        raise UserError(f"a probability of {float(array[t]):g} at t = {t}; allowed: finite, not negative")
    if not abs((total := float(array.sum(dtype=np.float64))) - 1) < WHOLE:
        raise UserError(f"probabilities that sum to {total:g}; allowed: 1, as `normalised` makes them")
    return array


#: Difference of a sum of probabilities from 1, by rounding.
WHOLE = 1e-5
#: Metric of clusters of timesteps.
ClusterMetric = Literal["timestep", "log_snr"]


def clusters_by(metric: ClusterMetric, schedule: NoiseSchedule, count: int) -> Partition:
    """Clusters that are the least spread in t or in log-SNR. Raises UserError for more of them than timesteps."""
    points = schedule.snr.log().cpu().numpy() if metric == "log_snr" else np.arange(schedule.timesteps)
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
