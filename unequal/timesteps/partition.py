"""Contiguous ranges of timesteps: slots of equal loss, and groups with limits of FLOPs."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError


def equal_loss_slots(loss: Tensor | np.ndarray | Sequence[float], slots: int) -> list[tuple[int, int]]:
    """Split all timesteps into contiguous slots with the same sum of loss (paper 1, Table 1).

    With S_t = Σ_{u≤t} L_u, timestep t belongs to slot ⌊K·(S_t − L_t/2)/S_{T−1}⌋.

    Args:
        loss: [T], a loss for each timestep, finite and not negative.
        slots: K, at most T.

    Returns:
        K ranges (first, last), both inclusive, from t = 0 to T−1.

    Raises:
        UserError: a loss that cannot be split, or an empty slot.
    """
    table = torch.as_tensor(loss, dtype=torch.float64)
    check_profile(table, slots)
    counts = equal_sums(table, slots)
    if (empty := first_empty(counts)) is not None:
        raise UserError(
            f"slot {empty + 1} of {slots} is empty: one timestep of the profile (T = {len(table)}) "
            f"outweighs a whole slot; use fewer slots"
        )
    return ranges_of(counts)


def equal_sums(loss: Tensor, parts: int) -> Tensor:
    """How many timesteps fall to each of K contiguous parts with the same sum of loss [T]; int64 [K]."""
    middle = torch.cumsum(loss, 0) - loss / 2
    member = (parts * middle / loss.sum()).floor().clamp(0, parts - 1).long()
    return torch.bincount(member, minlength=parts)


def first_empty(counts: Tensor) -> int | None:
    """The first part, counted from 0, that holds no timestep; None where each holds one."""
    empty = (counts == 0).nonzero()
    return int(empty[0]) if len(empty) else None


def check_profile(loss: Tensor, slots: int) -> None:
    """Raise UserError where a loss profile cannot be split into K slots, whatever its shape."""
    if loss.ndim != 1:
        raise UserError(f"a loss profile has one dimension, this has {loss.ndim}")
    if not 1 <= slots <= len(loss):
        raise UserError(f"{slots} slots of {len(loss)} timesteps; allowed: 1 … {len(loss)}")
    bad = (~torch.isfinite(loss) | (loss < 0)).nonzero()
    if len(bad):
        t = int(bad[0])
        raise UserError(f"the loss profile holds {float(loss[t])} at t = {t}; losses are finite and not negative")
    if float(loss.sum()) == 0:
        raise UserError("the loss profile is 0 at every timestep; there is nothing to split")


def ranges_of(counts: Tensor) -> list[tuple[int, int]]:
    """Inclusive ranges of these lengths, one behind the other."""
    ends = torch.cumsum(counts, 0).tolist()
    return [(end - count, end - 1) for end, count in zip(ends, counts.tolist(), strict=True)]


def widened(first: int, last: int, overlap: float, timesteps: int) -> tuple[int, int]:
    """An inclusive range of timesteps, longer at both ends by a share of its own length, within 0 … T−1."""
    beyond = round(overlap * (last - first + 1))
    return max(0, first - beyond), min(timesteps - 1, last + beyond)


#: How timesteps are grouped and limits given out: paper 3's Table II, and by the measured excess loss (ours).
Grouping = Literal["snr", "constant", "uniform_increasing", "uniform_decreasing", "excess_loss"]


class TimestepGroup(NamedTuple):
    """An inclusive range of timesteps and the FLOPs that its model may take, as a share of the base's."""

    first: int
    last: int
    limit_ratio: float

    @property
    def timesteps(self) -> int:
        """How many it holds."""
        return self.last - self.first + 1


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
            equal sums of measured excess loss, limits by its mean, the whole model where that is highest.
        schedule: gives SNR_t.
        groups: N, at least 1.
        min_ratio: k in (0, 1], the smallest model's share of the base's FLOPs.
        excess: [T], what the base loses beyond the floor; needed by `excess_loss` alone.

    Returns:
        N groups from the data end to the noise end.

    Raises:
        UserError: N or k out of range, an excess that cannot be split, or a group without a timestep.
    """
    check_groups(schedule, groups, min_ratio)
    limits = flops_limits(groups, min_ratio)
    if kind in ("uniform_increasing", "uniform_decreasing"):
        counts = equal_sums(torch.ones(schedule.timesteps, dtype=torch.float64), groups)
        return limited(counts, limits if kind == "uniform_increasing" else limits[::-1])
    if kind == "excess_loss":
        return excess_groups(excess, limits)
    rising = limited(snr_counts(schedule, limits, min_ratio), limits)
    return rising if kind == "snr" else [group._replace(limit_ratio=mean_limit(rising)) for group in rising]


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


def snr_counts(schedule: NoiseSchedule, limits: list[float], min_ratio: float) -> Tensor:
    """How many timesteps fall to each limit, [N]: group i holds F_u(i−1) < FLOPs(t) ≤ F_u(i) (eq. 5)."""
    # The first limit that is not exceeded; FLOPs of the last timestep may exceed 1 by a rounding error.
    member = torch.searchsorted(torch.tensor(limits, dtype=torch.float64), flops_by_timestep(schedule, min_ratio))
    counts = torch.bincount(member.clamp(max=len(limits) - 1), minlength=len(limits))
    if (empty := first_empty(counts)) is not None:
        raise UserError(
            f"group {empty} of {len(limits)} (counted from 0) holds no timestep: schedule '{schedule.name}' jumps over "
            f"its FLOPs between {limits[empty - 1]:.3f} and {limits[empty]:.3f} of the base's; use fewer groups"
        )
    return counts


def excess_groups(excess: Tensor | np.ndarray | None, limits: list[float]) -> list[TimestepGroup]:
    """Groups with equal sums of excess loss [T]; the higher its mean in a group, the higher the group's limit.

    Where the base loses most beyond what it must, a larger model has most to win. (Ours; paper 3 takes −SNR for
    the difficulty, by which limits rise towards the noise.)
    """
    if excess is None:
        raise UserError("groups of equal excess loss need the base's profile and its floor")
    table = torch.as_tensor(excess, dtype=torch.float64)
    check_profile(table, len(limits))
    counts = equal_sums(table, len(limits))
    if (empty := first_empty(counts)) is not None:
        raise UserError(
            f"group {empty} of {len(limits)} (counted from 0) holds no timestep: one timestep's excess loss outweighs "
            "a whole group's; use fewer groups"
        )
    means = torch.stack([part.mean() for part in table.split(counts.tolist())])
    ranks = means.argsort().argsort()
    return limited(counts, [limits[rank] for rank in ranks.tolist()])


def limited(counts: Tensor, limits: Sequence[float]) -> list[TimestepGroup]:
    """Groups of these sizes with these limits, one behind the other."""
    return [TimestepGroup(*range_, limit) for range_, limit in zip(ranges_of(counts), limits, strict=True)]


def mean_limit(groups: Sequence[TimestepGroup]) -> float:
    """The mean limit over all timesteps: what a step of sampling may cost on average."""
    return sum(group.timesteps * group.limit_ratio for group in groups) / sum(group.timesteps for group in groups)
