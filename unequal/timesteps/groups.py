"""Groups of timesteps: a range of a partition each, with a limit of FLOPs for the model that works there."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.timesteps.boundary import Boundary
from unequal.timesteps.partition import (
    ClusterMetric,
    Interleaved,
    Partition,
    TimestepRange,
    TimestepSet,
    clusters_by,
    equal_log_snr,
    equal_sums,
)

#: How timesteps are grouped and limits given out: paper 3's Table II, by the measured excess loss (ours), and ANT's.
Grouping = Literal[
    "snr",
    "constant",
    "uniform_increasing",
    "uniform_decreasing",
    "excess_loss",
    "timestep_clusters",
    "log_snr_clusters",
]
#: Kinds that can be made only after the base's loss has been measured.
BY_EXCESS = frozenset[Grouping]({"excess_loss"})


class TimestepGroup(NamedTuple):
    """A range of timesteps, or interleaved ones, and the FLOPs that its model may take, as a share of the base's."""

    range: TimestepSet
    limit_ratio: float


def timestep_groups(
    kind: Grouping,
    schedule: NoiseSchedule,
    groups: int,
    min_ratio: float,
    excess: Tensor | np.ndarray | None = None,
) -> list[TimestepGroup]:
    """Group all timesteps and limit the FLOPs of each group's model (paper 3, eqs. 2 to 5 and Table II).

    Args:
        kind: `snr`: equal intervals of −SNR in dB, limits F_u(i) rising to the whole model; `constant`: the same
            groups, each with the mean of those limits over timesteps; `uniform_increasing` and
            `uniform_decreasing`: groups of equal size with F_u(i) and F_u(N−1−i); `excess_loss`: groups with
            equal sums of measured excess loss, limits by its mean, the whole model where that is highest;
            `timestep_clusters` and `log_snr_clusters`: those of least cost (see `clusters`), all with the mean limit.
        schedule: gives SNR_t.
        groups: N, at least 1.
        min_ratio: k in (0, 1], the smallest model's share of the base's FLOPs.
        excess: [T], what the base loses beyond the loss of the optimal denoiser; needed by `excess_loss` alone.

    Returns:
        N groups from the data end to the noise end.

    Raises:
        UserError: N or k out of range, an excess that cannot be split, or a group without a timestep.
    """
    check_groups(schedule, groups, min_ratio)
    return GROUPINGS[kind](schedule, flops_limits(groups, min_ratio), excess)


def interleaved_groups(timesteps: int, groups: int, limit_ratio: float) -> list[TimestepGroup]:
    """Groups t ≡ i (mod N), all with one limit: as many models as by other groupings, none of which specialises.

    Raises UserError where a group would be empty, or one alone.
    """
    if not 2 <= groups <= timesteps:
        raise UserError(f"{groups} interleaved groups of {timesteps} timesteps; allowed: 2 … {timesteps}")
    lasts = range(timesteps - groups, timesteps)
    found = [Interleaved(last % groups, last, groups) for last in lasts]
    return [TimestepGroup(one, limit_ratio) for one in sorted(found)]


def check_groups(schedule: NoiseSchedule, groups: int, min_ratio: float) -> None:
    """Raise UserError where no N groups with k can be made, whatever their kind."""
    if not 1 <= groups <= schedule.timesteps:
        raise UserError(f"{groups} groups of {schedule.timesteps} timesteps; allowed: 1 … {schedule.timesteps}")
    if not 0 < min_ratio <= 1:
        raise UserError(f"min_ratio {min_ratio} is no share of the base's FLOPs; allowed: above 0, at most 1")
    if (distinct := len(set(flops_limits(groups, min_ratio)))) < groups:
        raise UserError(
            f"min_ratio {min_ratio} gives {distinct} distinct limit{'s' if distinct > 1 else ''} of FLOPs to {groups} "
            "groups; allowed: below 1, or one group"
        )


def flops_by_timestep(schedule: NoiseSchedule, min_ratio: float) -> Tensor:
    """FLOPs that each timestep deserves, as a share of the base's, [T] (paper 3, eqs. 2 and 3).

    −SNR in dB is mapped linearly on [k, 1]. The paper standardises it first, which the mapping undoes.
    """
    difficulty = -schedule.snr_db
    span = difficulty.max() - difficulty.min()
    return min_ratio + (1 - min_ratio) * (difficulty - difficulty.min()) / span


def flops_limits(groups: int, min_ratio: float) -> list[float]:
    """F_u(i)/F = (N−i−1)/N·k + (i+1)/N, rising to 1 (eq. 4)."""
    return [(groups - i - 1) / groups * min_ratio + (i + 1) / groups for i in range(groups)]


def excess_groups(excess: Tensor | np.ndarray | None, limits: list[float]) -> list[TimestepGroup]:
    """Groups with equal sums of excess loss [T]; the higher its mean in a group, the higher the group's limit.

    Where the base loses most beyond what it must, a larger model has most to win. (Ours; paper 3 takes −SNR for
    the difficulty, by which limits rise towards the noise.)
    """
    if excess is None:
        raise UserError("groups of equal excess loss need the base's profile and that of the optimal denoiser")
    table = torch.as_tensor(excess, dtype=torch.float64)
    partition = equal_sums(table, len(limits), "groups")
    means = torch.stack([table[one.slice].mean() for one in partition])
    ranks = means.argsort().argsort()
    return limited(partition, [limits[rank] for rank in ranks.tolist()])


def rising(schedule: NoiseSchedule, limits: list[float]) -> list[TimestepGroup]:
    """Equal intervals of SNR: FLOPs are linear in −SNR in dB, so that equal steps of the limit are such (eq. 5)."""
    return limited(equal_log_snr(schedule, len(limits), "groups"), limits)


def even(schedule: NoiseSchedule, limits: list[float]) -> list[TimestepGroup]:
    """Groups of equal size."""
    return limited(equal_sums(np.ones(schedule.timesteps), len(limits), "groups"), limits)


def clustered(metric: ClusterMetric, schedule: NoiseSchedule, limits: list[float]) -> list[TimestepGroup]:
    """Clusters of the least spread."""
    return alike_limited(limited(clusters_by(metric, schedule, len(limits)), limits))


def limited(partition: Partition, limits: Sequence[float]) -> list[TimestepGroup]:
    """The ranges of a partition, each with its limit."""
    return [TimestepGroup(*one) for one in zip(partition, limits, strict=True)]


def alike_limited(groups: Sequence[TimestepGroup]) -> list[TimestepGroup]:
    """Groups with equal limits, the mean of their limits over timesteps."""
    return [group._replace(limit_ratio=mean_limit(groups)) for group in groups]


def mean_limit(groups: Sequence[TimestepGroup]) -> float:
    """The mean limit over all timesteps: what a step of sampling may cost on average."""
    return sum(one.range.length * one.limit_ratio for one in groups) / sum(one.range.length for one in groups)


#: How timesteps are grouped: name → groups on a schedule, by rising limits and the excess loss [T].
GROUPINGS: dict[str, Callable[[NoiseSchedule, list[float], Any], list[TimestepGroup]]] = {
    "snr": lambda schedule, limits, excess: rising(schedule, limits),
    "constant": lambda schedule, limits, excess: alike_limited(rising(schedule, limits)),
    "uniform_increasing": lambda schedule, limits, excess: even(schedule, limits),
    "uniform_decreasing": lambda schedule, limits, excess: even(schedule, limits[::-1]),
    "excess_loss": lambda schedule, limits, excess: excess_groups(excess, limits),
    "timestep_clusters": lambda schedule, limits, excess: clustered("timestep", schedule, limits),
    "log_snr_clusters": lambda schedule, limits, excess: clustered("log_snr", schedule, limits),
}


def whole(schedule: NoiseSchedule, ratio: float) -> list[TimestepGroup]:
    """All timesteps as one group."""
    return [TimestepGroup(TimestepRange(0, schedule.timesteps - 1), ratio)]


def split_at(schedule: NoiseSchedule, log_snr: float, ratio: float) -> list[TimestepGroup]:
    """Two groups with a boundary between them."""
    return limited(Boundary(log_snr).ranges(schedule), [ratio, ratio])


#: Groups of other keys than a number and the smallest limit: name → groups on a schedule.
OTHER_GROUPINGS: dict[str, Callable[..., list[TimestepGroup]]] = {
    "whole": whole,
    "interleaved": lambda schedule, count, ratio: interleaved_groups(schedule.timesteps, count, ratio),
    "boundary": split_at,
}


def planned_groups(
    settings: Iterable[tuple[str, Any]], schedule: NoiseSchedule, excess: np.ndarray | None = None
) -> list[TimestepGroup]:
    """The groups of keys and values of a plan's settings. Raises UserError where they cannot be made.

    Args:
        settings: `kind`, and its keys.
        schedule: whose timesteps are grouped.
        excess: as `timestep_groups` takes it.
    """
    keys = dict(settings)
    kind = keys.pop("kind")
    if kind in OTHER_GROUPINGS:
        return OTHER_GROUPINGS[kind](schedule, **keys)
    return timestep_groups(kind, schedule, keys["count"], keys["min_ratio"], excess)


def foreseen_groups(settings: Iterable[tuple[str, Any]], schedule: NoiseSchedule) -> list[TimestepGroup]:
    """The groups of a plan; where they go by measured losses, as if those were equal everywhere."""
    return planned_groups(settings, schedule, np.ones(schedule.timesteps))
