"""Pictures of a comparison: samples, quality against cost, verdicts with intervals, and losses over timesteps."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from scipy.stats import sem

from unequal.comparison.judgement import Family
from unequal.comparison.results import ComparisonResults
from unequal.comparison.settings import Contrast
from unequal.comparison.speed import curve_of
from unequal.comparison.tables import NAMES, comparison_label
from unequal.report.drawing import (
    INK,
    PALE,
    SOFT,
    log_scale,
    log_timesteps,
    picture_grid,
    place_labels,
    prefixed,
)
from unequal.report.effective_weighting import COLOURS
from unequal.report.forest import ForestRow, forest_key, forest_panel
from unequal.report.formatting import label
from unequal.report.memorizing import grid_size
from unequal.report.overview import pareto_front
from unequal.report.page import Drawing

#: Inches: height of a row of a comparison, of the margins around a panel, and width of a picture.
ROW, AROUND, WIDTH = 0.3, 1.1, 8.5
#: Least ratio of the highest to the lowest training cost for which a picture of costs is drawn.
LEAST_RATIO = 1.01


def drawings(families: Sequence[Family], results: ComparisonResults) -> list[Drawing]:
    """All pictures of a page."""
    rows = len(families[0].verdicts) + 1
    return [
        Drawing(
            "comparisons",
            (WIDTH, len(families) * (AROUND + ROW * rows)),
            lambda figure: comparisons(figure, families, results.plan.repeated),
            "Variants against their controls",
            "Change of every endpoint with its 95 % interval; left is better. Shaded: within δ. Gold: the least change "
            "that so many blocks show in four of five studies. Last row: the control trained once more. An arrow "
            "stands for what lies beyond the axis, with its number.",
        ),
        Drawing(
            "curves",
            (WIDTH, 4.6),
            lambda figure: curves(figure, results),
            "Where in time variants differ",
            "Held-out loss of ε of variants over that of their controls, geometric mean over blocks ± its standard "
            "error. The axis ends where few lines go on.",
        ),
        Drawing(
            "losses",
            (WIDTH, 4.6),
            lambda figure: losses(figure, results),
            "Loss of every variant over timesteps",
            "Held-out loss of ε, geometric mean over blocks; both axes are logarithmic. The same as rows: curves.csv.",
        ),
    ]


def samples(results: ComparisonResults, folder: Path) -> Drawing:
    """Samples of every variant in the first block, from `<folder>/<variant>/block_<seed>.npy`."""
    first, arms = results.plan.seeds[0], results.plan.arms.all
    rows = {label(arm): np.load(folder / f"{arm}/block_{first}.npy", allow_pickle=False) for arm in arms}
    return Drawing(
        "samples",
        grid_size(len(rows)),
        partial(picture_grid, rows=rows),
        "Samples",
        f"The first samples of every variant in block {first}. Every column starts from one noise.",
    )


def quality_against_cost(results: ComparisonResults) -> list[Drawing]:
    """FID, or the first endpoint, against training FLOPs; nothing where all variants cost about the same."""
    flops = [mean_flops(results, arm) for arm in results.plan.arms.all]
    if max(flops) < LEAST_RATIO * min(flops):
        return []
    endpoint = "fid" if "fid" in results.plan.endpoints else next(iter(results.plan.endpoints))
    return [
        Drawing(
            "cost",
            (WIDTH, 4.6),
            lambda figure: cost(figure, results, endpoint),
            "Quality against cost",
            f"{NAMES[endpoint]} of each variant against training FLOPs (three times the multiply–accumulates of all "
            "images seen); the base's are included where a variant continues it. Geometric means over blocks; bars: "
            "their standard error. The broad line joins variants that none beats in both.",
        )
    ]


def styles(results: ComparisonResults) -> dict[str, dict[str, Any]]:
    """Style of each variant's line, the same in all pictures of a page; the repeated control is grey."""
    again = results.plan.repeated.arm
    others = [arm for arm in results.plan.arms.all if arm != again]
    return {again: {"color": SOFT, "linestyle": "--"}} | {
        arm: {"color": COLOURS[number % len(COLOURS)], "linestyle": ("-", "-.")[number // len(COLOURS) % 2]}
        for number, arm in enumerate(others)
    }


def mean_flops(results: ComparisonResults, arm: str) -> float:
    """Training FLOPs of a variant, mean over blocks."""
    return fmean(one["costs"]["training_flops"] for one in results.trainings[arm].values())


def cost(figure: Figure, results: ComparisonResults, endpoint: str) -> None:
    """Draw one point per variant, and the Pareto front."""
    axes, arms = figure.subplots(), results.plan.arms.all
    flops = [mean_flops(results, arm) for arm in arms]
    logs = results.logarithms(endpoint, arms)
    means, errors = np.exp(logs.mean(1)), np.exp(logs.mean(1)) * sem(logs, axis=1)
    front = pareto_front(flops, means)
    axes.plot([flops[i] for i in front], means[front], color=PALE, linewidth=6, zorder=0)
    inks = [styles(results)[arm]["color"] for arm in arms]
    for x, y, error, ink in zip(flops, means, errors, inks, strict=True):
        axes.errorbar(x, y, yerr=error, fmt="o", color=ink, markersize=5, capsize=3)
    log_scale(axes, "{:g}")
    axes.margins(x=0.16, y=0.14)
    axes.xaxis.set_major_formatter(FuncFormatter(prefixed))
    axes.set_xlabel("training FLOPs")
    axes.set_ylabel(f"{NAMES[endpoint]} (lower is better)")
    points = list(zip(flops, means, errors, strict=True))
    place_labels(axes, points, [(label(arm), ink) for arm, ink in zip(arms, inks, strict=True)])


def along_trainings(results: ComparisonResults, by: Sequence[str]) -> Drawing:
    """Picture of the endpoints over training images."""
    return Drawing(
        "along",
        (WIDTH, 4.6 * len(by)),
        lambda figure: paths(figure, results, by),
        "Along the training",
        "Lines are geometric means over blocks, points single trainings; both axes are logarithmic. A curve that lies "
        "to the left of another takes fewer images, by the factor of that distance.",
    )


def paths(figure: Figure, results: ComparisonResults, by: Sequence[str]) -> None:
    """Draw one panel per endpoint, with one line per variant and one point per training and snapshot."""
    for axes, endpoint in zip(np.atleast_1d(figure.subplots(len(by), 1)), by, strict=True):
        path(axes, results, endpoint)
        half = " of half of the samples" if endpoint == "fid" else ""
        axes.set_ylabel(f"{NAMES[endpoint]}{half} (lower is better)")


def path(axes: Axes, results: ComparisonResults, endpoint: str) -> None:
    """Draw one endpoint over training images."""
    for arm in results.plan.arms.all:
        curves = [curve_of(one, endpoint) for one in results.trainings[arm].values()]
        images, figures = np.array([one.images for one in curves]), np.array([one.figures for one in curves])
        mean = np.exp(np.log(figures).mean(0))
        (line,) = axes.plot(images[0], mean, label=label(arm), linewidth=1.6, **styles(results)[arm])
        axes.plot(images.T, figures.T, "o", color=line.get_color(), markersize=2.6, alpha=0.5)
    log_scale(axes, "{:g}")
    axes.set_xscale("log")
    axes.set_xlabel("images seen")
    axes.legend(loc="best", ncols=2)


def comparisons(figure: Figure, families: Sequence[Family], again: Contrast) -> None:
    """Draw one panel per endpoint, with one row per comparison; the last row is the repeated control."""
    panels = np.atleast_1d(figure.subplots(len(families), 1))
    drawn = [[*map(partial(forest_row, family), family.verdicts), check_row(family, again)] for family in families]
    for axes, family, rows in zip(panels, families, drawn, strict=True):
        forest_panel(axes, rows, family.delta, "change (left: lower, better)")
        axes.set_title(NAMES[family.endpoint], loc="left", fontsize=10)
    forest_key(figure, drawn, banded=True)


def forest_row(family: Family, one: Contrast) -> ForestRow:
    """Row of a planned comparison, with its verdict and its smallest detectable difference."""
    found, name = family.verdicts[one], comparison_label(one.arm, one.control)
    return ForestRow(name, found.change, found.low, found.high, found.word, family.visible[one])


def check_row(family: Family, again: Contrast) -> ForestRow:
    """Row of the repeated control, which should not differ from the control."""
    found = family.repeated
    return ForestRow(
        f"{comparison_label(again.arm, again.control)} (check)", found.change, found.low, found.high, found.word
    )


def curves(figure: Figure, results: ComparisonResults) -> None:
    """Draw each variant's loss divided by its control's, over timesteps counted from 1."""
    axes, middle = figure.subplots(), middles(results)
    compared = (*results.plan.compared, results.plan.repeated)
    drawn: list[np.ndarray] = []
    seen: list[str] = []
    for one in compared:
        logs = np.log(results.curves(one.arm)) - np.log(results.curves(one.control))
        mean, error = logs.mean(0), logs.std(0, ddof=1) / np.sqrt(len(logs))
        several = [each.arm for each in compared].count(one.arm) > 1
        name = comparison_label(one.arm, one.control) if several else label(one.arm)
        # A variant's further controls have dotted lines of its colour.
        style: dict[str, Any] = styles(results)[one.arm] | ({"linestyle": ":"} if one.arm in seen else {})
        seen.append(one.arm)
        (line,) = axes.plot(middle, 100 * np.expm1(mean), linewidth=1.6, label=name, **style)
        low, high = (100 * np.expm1(mean + side * error) for side in (-1, 1))
        drawn.append(100 * np.expm1(mean))
        axes.fill_between(middle, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
    axes.axhline(0, color=INK, linewidth=1)
    axes.set_ylim(without_outliers(np.concatenate(drawn), axes.get_ylim()))
    log_timesteps(axes, results.timesteps)
    axes.set_ylabel("loss against the control's, change in %")
    axes.legend(loc="best", ncols=2)


def without_outliers(values: np.ndarray, limits: tuple[float, float]) -> tuple[float, float]:
    """Limits of an axis; the outer twentieths of the values may at most double the span of the others."""
    low, high = np.quantile(values, [0.05, 0.95])
    room = 0.5 * (high - low)
    return max(limits[0], min(float(low - room), 0.0)), min(limits[1], max(float(high + room), 0.0))


def losses(figure: Figure, results: ComparisonResults) -> None:
    """Draw the losses of all variants."""
    axes = figure.subplots()
    for arm in results.plan.arms.all:
        means = np.exp(np.log(results.curves(arm)).mean(0))
        axes.plot(middles(results), means, label=label(arm), linewidth=1.4, **styles(results)[arm])
    log_timesteps(axes, results.timesteps)
    axes.set_yscale("log")
    axes.set_ylabel("held-out loss of ε")
    axes.legend(loc="best", ncols=2)


def middles(results: ComparisonResults) -> np.ndarray:
    """Positions of the bins of the curves, as timesteps counted from 1, [bins]."""
    first = results.bins + 1.0
    middle: np.ndarray = np.sqrt(first * np.append(first[1:], results.timesteps + 1))
    return middle
