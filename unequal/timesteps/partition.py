"""Contiguous ranges of timesteps: slots of equal loss, and groups by SNR with limits of FLOPs."""

from collections.abc import Sequence

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
    total = check_profile(table, slots)
    middle = torch.cumsum(table, 0) - table / 2
    member = (slots * middle / total).floor().clamp(0, slots - 1).long()
    counts = torch.bincount(member, minlength=slots)
    if bool((counts == 0).any()):
        empty = int((counts == 0).nonzero()[0])
        raise UserError(
            f"slot {empty + 1} of {slots} is empty: one timestep of the profile (T = {len(table)}) "
            f"outweighs a whole slot; use fewer slots"
        )
    return ranges_of(counts)


def check_profile(loss: Tensor, slots: int) -> float:
    """The sum of a loss profile that can be split into K slots. Raises UserError."""
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
    return float(loss.sum())


def ranges_of(counts: Tensor) -> list[tuple[int, int]]:
    """Inclusive ranges of these lengths, one behind the other."""
    ends = torch.cumsum(counts, 0).tolist()
    return [(end - count, end - 1) for end, count in zip(ends, counts.tolist(), strict=True)]


def flops_by_timestep(schedule: NoiseSchedule, min_ratio: float) -> Tensor:
    """FLOPs that each timestep deserves, as a share of the base's, [T] (paper 3, eqs. 2 and 3).

    −SNR in dB is mapped linearly on [k, 1]. The paper standardises it first, which the mapping undoes.
    """
    difficulty = -schedule.snr_db
    span = difficulty.max() - difficulty.min()
    return min_ratio + (1 - min_ratio) * (difficulty - difficulty.min()) / span


def flops_limits(groups: int, min_ratio: float) -> list[float]:
    """F_u(i)/F = (N−i−1)/N·k + (i+1)/N, rising to 1 for the group nearest pure noise (eq. 4)."""
    return [(groups - i - 1) / groups * min_ratio + (i + 1) / groups for i in range(groups)]


def flops_groups(schedule: NoiseSchedule, groups: int, min_ratio: float) -> list[tuple[int, int, float]]:
    """Group timesteps by SNR so that each group stays under its FLOPs limit (paper 3, eqs. 2 to 5).

    Args:
        schedule: gives SNR_t.
        groups: N, at least 1.
        min_ratio: k in (0, 1], the smallest model's share of the base's FLOPs.

    Returns:
        N triples (first, last, limit_ratio), inclusive, from the data end to the noise end.

    Raises:
        UserError: N or k out of range, or a group without a timestep.
    """
    if not 1 <= groups <= schedule.timesteps:
        raise UserError(f"{groups} groups of {schedule.timesteps} timesteps; allowed: 1 … {schedule.timesteps}")
    if not 0 < min_ratio <= 1:
        raise UserError(f"min_ratio {min_ratio} is no share of the base's FLOPs; allowed: above 0, at most 1")
    if min_ratio == 1 and groups > 1:
        raise UserError(f"min_ratio 1 gives every timestep the whole model; {groups} groups need it below 1")
    limits = flops_limits(groups, min_ratio)
    limits[-1] = 1.0
    # Group i holds F_u(i−1) < FLOPs(t) ≤ F_u(i): the first limit that is not exceeded.
    member = torch.searchsorted(torch.tensor(limits, dtype=torch.float64), flops_by_timestep(schedule, min_ratio))
    counts = torch.bincount(member.clamp(max=groups - 1), minlength=groups)
    if bool((counts == 0).any()):
        empty = int((counts == 0).nonzero()[0])
        raise UserError(
            f"group {empty} of {groups} (counted from 0) holds no timestep: schedule '{schedule.name}' jumps over "
            f"its FLOPs between {limits[empty - 1]:.3f} and {limits[empty]:.3f} of the base's; use fewer groups"
        )
    return [(first, last, limit) for (first, last), limit in zip(ranges_of(counts), limits, strict=True)]
