"""Groups of timesteps: where they lie on the SNR, what their models may take of the base's FLOPs, and what they do."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from unequal.artifacts.partitions import GroupTable
from unequal.diffusion.schedule import NoiseSchedule
from unequal.measures.loss_profile import relative_change
from unequal.report.figures import GOLD, INK, PALE, RED, SOFT
from unequal.report.findings import EXPERTS, JOINT, PipelineFindings
from unequal.report.page import Table
from unequal.report.tables import label, plus_minus, with_prefix
from unequal.timesteps.groups import TimestepGroup, flops_by_timestep, mean_limit

#: How people read the kinds of groups.
KINDS = {
    "snr": "equal intervals of SNR in dB, limits rising towards the noise",
    "constant": "equal intervals of SNR in dB, one limit for all",
    "uniform_increasing": "equal size, limits rising towards the noise",
    "uniform_decreasing": "equal size, limits falling towards the noise",
    "excess_loss": "equal sums of the base's excess loss, the highest limit where its mean is highest",
    "timestep_clusters": "clusters of the least spread in t, one limit for all",
    "log_snr_clusters": "clusters of the least spread in log-SNR, one limit for all",
}
#: More groups than this are named by their number alone.
NAMED = 5

CAPTION = (
    "Groups of timesteps and their FLOPs",
    "Above: signal-to-noise ratio. Below: the share of the base's FLOPs that each timestep deserves by its SNR "
    "([3], eq. 3), the limit of its group, and what the group's pruned model takes.",
)
COLUMNS = ("group", "timesteps", "SNR in dB", "limit of FLOPs", "its pruned model", "sampling steps")
NOTE = (
    "Groups count from 0 (data) on. Limits and pruned models as shares of the base's FLOPs. "
    "A group without a sampling step takes part in no score."
)


EXPERT_COLUMNS = (
    "experts",
    "group",
    "images inside, joint model",
    "images inside, expert",
    "held-out loss, joint model",
    "held-out loss, expert",
    "change",
)
EXPERT_NOTE = (
    "Images inside: those that a model was trained on at timesteps of the group, the base's counted in, by the group's "
    "share of all timesteps where a model was trained on all. Mean held-out loss of ε in the group; change ± standard "
    "error of paired draws, of one training each. The joint model is the base trained on for as many images as all of "
    "an unpruned set's together."
)


def groups_and_limits(figure: Figure, groups: GroupTable, shares: Sequence[float]) -> None:
    """SNR over timesteps with the groups (paper 3, Fig. 2), and below it the FLOPs that each deserves and gets.

    Args:
        figure: to draw on.
        groups: of timesteps, with their limits.
        shares: FLOPs of each group's pruned model as a share of the base's.
    """
    schedule, found = NoiseSchedule.named(groups.schedule, groups.timesteps, groups.shift), groups.with_limits
    upper, lower = figure.subplots(2, 1, sharex=True)
    upper.plot(np.arange(schedule.timesteps), schedule.snr_db, color=INK, linewidth=1.8)
    upper.set_ylabel("SNR in dB")
    flops = flops_by_timestep(schedule, groups.min_ratio)
    lower.plot(np.arange(schedule.timesteps), flops, color=INK, linewidth=1.8, label="deserved by SNR")
    steps(lower, found, [group.limit_ratio for group in found], color=GOLD, label="limit of the group")
    steps(lower, found, shares, color=RED, linestyle=(0, (2, 1)), label="its pruned model")
    mean = mean_limit(found)
    lower.axhline(mean, color=GOLD, linewidth=1, linestyle=":", label=f"mean limit over timesteps, {mean:.3f}")
    for axes in (upper, lower):
        for group in found[::2]:
            axes.axvspan(group.range.first, group.range.last + 1, color=PALE, linewidth=0, zorder=0)
    for number, group in enumerate(found):
        name = f"group {number}" if len(found) <= NAMED else str(number)
        middle, place = (group.range.first + group.range.last + 1) / 2, upper.get_xaxis_transform()
        upper.text(middle, 1.02, name, transform=place, ha="center", color=SOFT, fontsize=9)
    lower.set_ylabel("share of the base's FLOPs")
    lower.set_xlabel("timestep t (0: data, T − 1: noise)")
    lower.set_ylim(min(groups.min_ratio, *shares) - 0.05, 1.05)
    lower.set_xlim(0, schedule.timesteps)
    lower.legend(loc="best")


def steps(axes: Axes, groups: Sequence[TimestepGroup], heights: Sequence[float], **style: Any) -> None:
    """A horizontal line over each group."""
    first, last = [group.range.first for group in groups], [group.range.last + 1 for group in groups]
    axes.hlines(heights, first, last, linewidth=2.4, **style)


def groups_table(groups: GroupTable, shares: Sequence[float], sampling_steps: Sequence[int]) -> Table:
    """A row a group.

    Args:
        groups: of timesteps, with their limits.
        shares: FLOPs of each group's pruned model as a share of the base's.
        sampling_steps: how many of the sampling steps fall to each group; none where no experts were scored.
    """
    schedule, found = NoiseSchedule.named(groups.schedule, groups.timesteps, groups.shift), groups.with_limits
    rows = [
        (
            str(number),
            f"{group.range.first} – {group.range.last}",
            " … ".join(f"{float(schedule.snr_db[t]):.1f}".replace("-", "−") for t in group.range),
            f"{group.limit_ratio:.3f}",
            f"{shares[number]:.3f}",
            str(sampling_steps[number]) if sampling_steps else "–",
        )
        for number, group in enumerate(found)
    ]
    kind = f"Made by: {KINDS[groups.kind]}. Mean limit over timesteps: {mean_limit(found):.4f}. "
    return Table("Groups of timesteps", COLUMNS, rows, kind + NOTE)


def experts_table(found: PipelineFindings) -> Table:
    """A row a set of experts and group, beside the joint model: what each was fed, and how it errs there."""
    rows = [
        expert_row(found, experts, number) for experts, seen in found.experts.items() for number in range(len(seen))
    ]
    return Table("Experts, group by group", EXPERT_COLUMNS, rows, EXPERT_NOTE)


def expert_row(found: PipelineFindings, experts: str, number: int) -> tuple[str, ...]:
    """A group's expert beside the joint model."""
    group, joint = found.groups.with_limits[number].range, found.joint
    assert joint is not None  # as the table sees to
    seen, share = found.experts[experts][number], group.length / found.schedule.timesteps
    images = share * (joint.own + joint.inherited), seen.own + share * seen.inherited
    before, after = (found.losses[model]["holdout"][group.slice] for model in (JOINT, experts))
    change, error = relative_change(before, after)
    return (
        label(experts.removeprefix(EXPERTS)),
        str(number),
        *map(with_prefix, images),
        *(f"{losses.mean():.5f}" for losses in (before, after)),
        f"{plus_minus(100 * change, 100 * error, signed=True)} %",
    )
