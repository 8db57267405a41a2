"""Comparison of each group's expert with the joint model: images inside the group, and losses there."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import NonNegativeInt, PositiveInt

from unequal.comparison.results import ComparisonResults, file_of
from unequal.errors import UserError
from unequal.report.figures import Figures, read_figures
from unequal.report.formatting import label, percent, plus_minus, with_prefix
from unequal.report.page import Table

COLUMNS = (
    "experts",
    "timesteps",
    "images inside, joint model",
    "images inside, experts",
    "losses over",
    "loss, joint model",
    "loss, experts",
    "change",
    "standard error",
    "in the loss over all timesteps",
)


class GroupFigures(Figures):
    """A group of a plan: its timesteps, and the images on which its model was trained inside it."""

    first: NonNegativeInt
    last: NonNegativeInt
    stride: PositiveInt
    images_seen: NonNegativeInt
    inherited_images_inside: NonNegativeInt


class PlanFigures(Figures):
    """results/trainings/<arm>/block_<seed>.json: all images of a training, and its groups."""

    images: PositiveInt
    groups: tuple[GroupFigures, ...]


@dataclass(frozen=True)
class GroupComparison:
    """A group's expert compared with the joint model.

    Attributes:
        arm: the variant whose experts are compared.
        first, last: first and last timestep of the group.
        over: first and last timestep over which losses are averaged.
        joint_images, images: training images at timesteps of the group, joint model and expert, means over blocks.
        joint_loss, loss: held-out loss of ε averaged over `over`, joint model and expert, [blocks].
        joint_whole: the joint model's loss summed over all timesteps, divided by the timesteps of `over`, [blocks].
    """

    arm: str
    first: int
    last: int
    over: tuple[int, int]
    joint_images: float
    images: float
    joint_loss: np.ndarray
    loss: np.ndarray
    joint_whole: np.ndarray

    @property
    def part(self) -> float:
        """Change of the loss over all timesteps by the group, as a share of the joint model's; mean over blocks."""
        return float(((self.loss - self.joint_loss) / self.joint_whole).mean())

    @property
    def change(self) -> tuple[float, float]:
        """Mean difference of ln loss over the blocks, and its standard error."""
        difference = np.log(self.loss / self.joint_loss)
        return float(difference.mean()), float(difference.std(ddof=1) / len(difference) ** 0.5)


def compare_groups(results: ComparisonResults, trainings: Path) -> list[GroupComparison]:
    """Compare all groups of all variants that have several groups of adjacent timesteps.

    Args:
        results: the study's trainings.
        trainings: the folder of the trainings' own figures.

    Raises:
        UserError: a training's figures are missing, or a variant's groups differ between blocks.
    """
    read = {
        arm: [read_figures(trainings / file_of(arm, block), PlanFigures) for block in results.plan.seeds]
        for arm in results.plan.arms.all
    }
    joint = results.plan.repeated.control
    return [one for arm, plans in read.items() for one in groups_of(results, arm, plans, joint, read[joint])]


def groups_of(
    results: ComparisonResults,
    arm: str,
    plans: Sequence[Mapping[str, Any]],
    joint: str,
    joints: Sequence[Mapping[str, Any]],
) -> Iterator[GroupComparison]:
    """Yield the comparisons of a variant's groups. Raises UserError where groups differ between blocks."""
    for groups in zip(*(one["groups"] for one in plans), strict=True):
        first, last, stride = ({group[name] for group in groups} for name in ("first", "last", "stride"))
        if max(map(len, (first, last, stride))) > 1:
            raise UserError(f"'{arm}' has other groups in one block than in another; train it again")
        start, end = first.pop(), last.pop()
        if len(plans[0]["groups"]) > 1 and stride == {1} and (bins := bins_inside(results, start, end)) is not None:
            inside, over = bins
            yield GroupComparison(
                arm,
                start,
                end,
                over,
                float(np.mean([one["images"] for one in joints])) * (end + 1 - start) / results.timesteps,
                float(np.mean([group["images_seen"] + group["inherited_images_inside"] for group in groups])),
                results.curves(joint) @ inside,
                results.curves(arm) @ inside,
                results.curves(joint) @ widths(results) / (over[1] + 1 - over[0]),
            )


def widths(results: ComparisonResults) -> np.ndarray:
    """Number of timesteps in each bin of the curves, [K]."""
    return np.diff([*results.bins, results.timesteps])


def bins_inside(results: ComparisonResults, first: int, last: int) -> tuple[np.ndarray, tuple[int, int]] | None:
    """Weights of the bins that lie wholly in a range of timesteps, and the first and last timestep of those bins.

    Weights, [K], are proportional to a bin's number of timesteps and sum to 1. None where no bin lies in the range.
    """
    starts = results.bins
    ends = starts + widths(results)
    inside = (starts >= first) & (ends <= last + 1)
    if not inside.any():
        return None
    weights = widths(results) * inside
    return np.asarray(weights / weights.sum()), (int(starts[inside][0]), int(ends[inside][-1]) - 1)


def group_table(groups: Sequence[GroupComparison], joint: str) -> Table:
    """Table with one row per variant and group."""
    note = (
        f"Compared with {label(joint)}. Images inside: those at timesteps of the group, its base's counted in. Losses "
        "are means of the held-out loss of ε over the bins of timesteps that lie wholly in the group, whose ends are "
        "shown, and over blocks; the standard error is of the mean change over blocks; no verdict uses it. In the loss "
        "over all timesteps: what these bins change of it, as a share of the joint model's. Groups of every n-th "
        "timestep, and those without a whole bin, are left out."
    )
    return Table("Experts, group by group", COLUMNS, [row(one) for one in groups], note)


def row(one: GroupComparison) -> tuple[str, ...]:
    """Row of a group as text."""
    change, error = one.change
    return (
        label(one.arm),
        f"{one.first} – {one.last}",
        with_prefix(one.joint_images),
        with_prefix(one.images),
        f"{one.over[0]} – {one.over[1]}",
        *(plus_minus(float(losses.mean()), float(losses.std(ddof=1))) for losses in (one.joint_loss, one.loss)),
        percent(float(np.expm1(change)), sign=True),
        percent(error),
        percent(one.part, sign=True),
    )


def group_rows(groups: Sequence[GroupComparison]) -> list[dict[str, Any]]:
    """Rows of the table as numbers."""
    return [
        {
            "arm": one.arm,
            "first": one.first,
            "last": one.last,
            "first_measured": one.over[0],
            "last_measured": one.over[1],
            "joint_images": one.joint_images,
            "images": one.images,
            "joint_loss": float(one.joint_loss.mean()),
            "loss": float(one.loss.mean()),
            "log_change": one.change[0],
            "stderr": one.change[1],
            "part": one.part,
        }
        for one in groups
    ]
