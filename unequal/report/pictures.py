"""Pictures of a pipeline run: training curves, losses over timesteps, samplers, groups, samples."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import SymLogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter

from unequal.diffusion.schedule import NoiseSchedule
from unequal.evaluation.loss_profile import relative_change
from unequal.report.captions import CAPTIONS
from unequal.report.drawing import (
    GOLD,
    INK,
    PALE,
    RED,
    SOFT,
    binned,
    colour,
    curve,
    log_bins,
    log_edges,
    log_scale,
    log_timesteps,
    picture_grid,
    prefixed,
    slot_bands,
)
from unequal.report.figures import TrainingCurve
from unequal.report.formatting import label
from unequal.report.heads import head_wins
from unequal.report.memorizing import grid_size
from unequal.report.page import Drawing
from unequal.report.results import SLOT, RunResults, SlotChange
from unequal.timesteps.groups import TimestepGroup, flops_by_timestep, mean_limit
from unequal.timesteps.partition import Partition
from unequal.training.timestep_files import GroupTable

#: Lower limit of the picture of samplers, as a share of the uniform probability.
RAREST = 1e-3
#: Inches; read well in a README and on a page.
WIDE, TALL, BROAD = (8.4, 4.4), (8.4, 5.6), (10.5, 4.2)
#: Largest number of groups that are labelled in full; more are labelled by number alone.
NAMED = 5


def drawings(results: RunResults) -> list[Drawing]:
    """Pictures in the order of the page; those of absent methods are left out."""
    progress = {f"{prefixed(images)} images": samples for images, samples in results.progress.items()}
    samples = {label(name): images for name, images in results.in_order(results.samples).items()}
    losses = {name: one["train"].epsilon for name, one in results.errors.items()}
    held_out = results.losses("base", "holdout")
    changes = results.slot_changes("train")
    drawn: dict[str, tuple[tuple[float, float], Callable[[Figure], None]]] = {
        "training_curves": (WIDE, partial(training_curves, trainings=results.trainings)),
    }
    if progress:
        drawn["progress"] = grid_size(len(progress)), partial(picture_grid, rows=progress)
    profile = partial(loss_profile, losses=losses, held_out=held_out, floor=results.floor, slots=results.slots)
    drawn["loss_profile"] = TALL, profile
    if len(losses) > 1:
        drawn["loss_changes"] = WIDE, partial(loss_changes, losses=losses, slots=results.slots)
    if changes and results.slots is not None:
        drawn["interference"] = WIDE, partial(slot_changes, changes=changes, count=len(results.slots))
    if results.samplers:
        drawn["samplers"] = WIDE, partial(sampler_probabilities, samplers=results.samplers, slots=results.slots)
    if results.wins is not None:
        drawn["head_wins"] = BROAD, partial(head_wins, wins=results.wins)
    if results.groups is not None:
        shares = {number: one.share_of_base for number, one in results.prunings.items()}
        drawn["groups"] = TALL, partial(groups_and_limits, groups=results.groups, shares=shares)
    if len(samples) > 1:
        drawn["samples"] = grid_size(len(samples)), partial(picture_grid, rows=samples)
    return [Drawing(name, *one, *CAPTIONS[name]) for name, one in drawn.items()]


def binned_ratio(before: np.ndarray, after: np.ndarray, borders: np.ndarray) -> tuple[np.ndarray, ...]:
    """Middle of each bin, ratio of the summed losses after and before, and its paired standard error, all [k]."""
    bins = [slice(first, last) for first, last in pairwise(borders)]
    change, stderr = np.transpose([relative_change(before[part], after[part]) for part in bins])
    return np.sqrt((borders[:-1] + 1.0) * borders[1:]), 1 + change, stderr


def loss_profile(
    figure: Figure,
    losses: Mapping[str, np.ndarray],
    held_out: np.ndarray,
    floor: np.ndarray,
    slots: Partition | None = None,
) -> None:
    """Draw losses over timesteps: the base's on both splits, the optimal denoiser's, and other models' in grey.

    Args:
        figure: figure to draw on.
        losses: model → training losses of all draws, [T, n].
        held_out: the base's losses on held-out draws, [T, m].
        floor: the optimal denoiser's, [T, n] or [T, 0].
        slots: shaded ranges of timesteps, if there are any.
    """
    axes = figure.subplots()
    slot_bands(axes, slots)
    others = [name for name in losses if name != "base"]
    for i, name in enumerate(others):
        text = "other models, training" if i == 0 else None
        curve(axes, losses[name], band=False, color="#c3c9cf", linewidth=0.8, label=text)
    if floor.shape[1]:
        curve(axes, floor, color=GOLD, linewidth=1.5, label="optimal denoiser of training images")
    curve(axes, held_out, color=RED, linewidth=1.4, label="base, held-out images")
    curve(axes, losses["base"], color=INK, linewidth=1.8, label="base, training images")
    axes.set_yscale("log")
    # The optimal-denoiser loss falls far below the losses of all networks.
    means = [binned(table, log_bins(len(floor)))[1].mean for table in losses.values()]
    axes.set_ylim(np.min(means) / 20, np.max(means) * 3)
    log_timesteps(axes, len(floor))
    axes.set_ylabel("loss: mean squared error of ε")
    axes.legend(loc="lower left")


def loss_changes(figure: Figure, losses: Mapping[str, np.ndarray], slots: Partition | None) -> None:
    """Draw the training loss of every other model divided by the base's, on the same draws, over timesteps."""
    axes = figure.subplots()
    slot_bands(axes, slots)
    base = losses["base"]
    for name in (name for name in losses if name != "base"):
        x, ratio, error = binned_ratio(base, losses[name], log_bins(len(base)))
        if slots is not None and name.startswith(SLOT):
            axes.plot(x, ratio, color=colour(name), linewidth=0.9, label=label(name))
            low, high = log_edges(slots[int(name.removeprefix(SLOT)) - 1])
            inside = (x >= low) & (x <= high)
            axes.plot(x[inside], ratio[inside], color=colour(name), linewidth=3.2, solid_capstyle="butt")
        else:
            axes.plot(x, ratio, color=colour(name), linewidth=1.6, label=label(name))
            axes.fill_between(x, ratio - error, ratio + error, color=colour(name), alpha=0.2, linewidth=0)
    axes.axhline(1, color=INK, linewidth=1)
    log_scale(axes, "{:g} ×")
    log_timesteps(axes, len(base))
    axes.set_ylabel("training loss over the base's")
    axes.legend(loc="best", ncols=2)


def slot_changes(figure: Figure, changes: Sequence[SlotChange], count: int) -> None:
    """Draw the change of every slot's loss (columns) after training inside one slot (rows), in percent ± one error."""
    axes = figure.subplots()
    rows = sorted({one.finetuned for one in changes})
    table = np.array([[100 * one.change for one in changes if one.finetuned == row] for row in rows])
    stderr = [[100 * one.stderr for one in changes if one.finetuned == row] for row in rows]
    bound = max(10.0, float(np.abs(table).max()))
    norm = SymLogNorm(1, vmin=-bound, vmax=bound)
    image, shades = axes.imshow(table, cmap="RdBu_r", norm=norm, aspect="auto"), np.asarray(norm(table))
    for (i, k), value in np.ndenumerate(table):
        pale = abs(shades[i, k] - 0.5) > 0.36
        axes.text(
            k,
            i,
            cell(value, stderr[i][k]),
            ha="center",
            va="center",
            fontsize=8.5,
            color="white" if pale else "#222222",
        )
    for i, row in enumerate(rows):
        axes.add_patch(Rectangle((row - 1.5, i - 0.5), 1, 1, fill=False, edgecolor="#111111", linewidth=2.2))
    axes.set_xticks(range(count), [str(slot) for slot in range(1, count + 1)])
    axes.set_yticks(range(len(rows)), [f"slot {row}" for row in rows])
    axes.set_xlabel("slot in which the loss is measured (1: data, last: noise)")
    axes.set_ylabel("trained on inside")
    axes.grid(False)
    axes.tick_params(length=0)
    bar = figure.colorbar(image, ax=axes, pad=0.01, aspect=30)
    bar.set_label("change of the loss in %")
    bar.outline.set_visible(False)


def cell(percent: float, stderr: float) -> str:
    """Format a percentage above its standard error, in few characters."""
    error = "< 0.1" if stderr < 0.05 else f"{stderr:.{0 if stderr >= 10 else 1}f}"
    return f"{percent:+.{0 if abs(percent) >= 100 else 1}f}\n± {error}".replace("-", "−")


def sampler_probabilities(
    figure: Figure, samplers: Mapping[str, Sequence[np.ndarray]], slots: Partition | None = None
) -> None:
    """Draw each sampler's probability of a timestep as a multiple of uniform; earlier states are paler.

    Args:
        figure: figure to draw on.
        samplers: name → probabilities [T], at several points of the training where they change.
        slots: slots, which are shaded if there are any.
    """
    axes = figure.subplots()
    slot_bands(axes, slots)
    timesteps = len(next(iter(samplers.values()))[0])
    x = np.arange(1, timesteps + 1)
    for name, stages in samplers.items():
        for number, probabilities in enumerate(stages, 1):
            last = number == len(stages)
            # A log scale cannot show zeros, so the line breaks there.
            height = np.where(probabilities > 0, probabilities * timesteps, np.nan)
            style: dict[str, Any] = {"linewidth": 1.8, "label": label(name)} if last else {"linewidth": 1.0}
            axes.step(x, height, where="mid", color=colour(name), alpha=0.2 + 0.8 * number / len(stages), **style)
    log_scale(axes, "{:g} ×")
    axes.set_ylim(bottom=max(axes.get_ylim()[0], RAREST))
    log_timesteps(axes, timesteps)
    axes.set_ylabel("probability over uniform")
    axes.legend(loc="best")


def training_curves(figure: Figure, trainings: Mapping[str, TrainingCurve]) -> None:
    """Draw the training loss over the images of each training, smoothed as in its log."""
    axes = figure.subplots()
    for name, one in trainings.items():
        alone = "o" if len(one.images) == 1 else None  # a point makes no line
        text = label(name.replace("_group_", " "))
        axes.plot(one.images, one.losses, color=colour(name), linewidth=1.2, marker=alone, label=text)
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(prefixed))
    axes.set_xlabel("images of the training")
    axes.set_ylabel("training loss")
    figure.legend(loc="outside lower center", ncols=5)


def groups_and_limits(figure: Figure, groups: GroupTable, shares: Mapping[int, float]) -> None:
    """Draw SNR over timesteps with the groups (paper 3, Fig. 2), and below it the FLOPs by SNR, limit and pruned model.

    Args:
        figure: figure to draw on.
        groups: groups of timesteps, with their limits.
        shares: group → FLOPs of its pruned model as a share of the base's.
    """
    schedule, limited = NoiseSchedule.named(groups.schedule, groups.timesteps, groups.shift), groups.with_limits
    upper, lower = figure.subplots(2, 1, sharex=True)
    upper.plot(np.arange(schedule.timesteps), schedule.snr_db, color=INK, linewidth=1.8)
    upper.set_ylabel("SNR in dB")
    flops = flops_by_timestep(schedule, groups.min_ratio)
    lower.plot(np.arange(schedule.timesteps), flops, color=INK, linewidth=1.8, label="deserved by SNR")
    steps(lower, limited, [group.limit_ratio for group in limited], color=GOLD, label="limit of the group")
    if shares:
        style: dict[str, Any] = {"color": colour("experts_pruned"), "linestyle": (0, (2, 1))}
        steps(lower, [limited[number] for number in shares], list(shares.values()), label="its pruned model", **style)
    mean = mean_limit(limited)
    lower.axhline(mean, color=GOLD, linewidth=1, linestyle=":", label=f"mean limit over timesteps, {mean:.3f}")
    for axes in (upper, lower):
        for group in limited[::2]:
            axes.axvspan(group.range.first, group.range.last + 1, color=PALE, linewidth=0, zorder=0)
    for number, group in enumerate(limited):
        name = f"group {number}" if len(limited) <= NAMED else str(number)
        middle, place = (group.range.first + group.range.last + 1) / 2, upper.get_xaxis_transform()
        upper.text(middle, 1.02, name, transform=place, ha="center", color=SOFT, fontsize=9)
    lower.set_ylabel("share of the base's FLOPs")
    lower.set_xlabel("timestep t (0: data, T − 1: noise)")
    lower.set_ylim(min(groups.min_ratio, *shares.values()) - 0.05, 1.05)
    lower.set_xlim(0, schedule.timesteps)
    lower.legend(loc="best")


def steps(axes: Axes, groups: Sequence[TimestepGroup], heights: Sequence[float], **style: Any) -> None:
    """Draw a horizontal line over each group."""
    first, last = [group.range.first for group in groups], [group.range.last + 1 for group in groups]
    axes.hlines(heights, first, last, linewidth=2.4, **style)
