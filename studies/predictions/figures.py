"""Pictures of predictions over timesteps: where each errs less, who wins when, and what heads are together."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from studies.predictions.findings import SYMBOLS, Crossover, HeadFindings, ThreeHeads
from studies.predictions.tables import selection, ways
from unequal.diffusion.predictions import HEADS
from unequal.measures.head_errors import correlations
from unequal.reporting.figures import INK, SOFT, colour, log_bins, log_scale, log_timesteps
from unequal.reporting.tables import label, sd

#: Points of a training at which winners are shown: their names, and places from its first part to its last.
MOMENTS = (("first twentieth", 0.0), ("after a quarter", 0.25), ("half-way", 0.5), ("last twentieth", 1.0))
PAIR_COLOURS = ("#7a6a3a", "#8a5bb5", "#2a9d74")

#: Picture → heading and caption.
CAPTIONS = {
    "scores": (
        "FID of every training and selection",
        "Diamonds are means, filled where the recipe itself names the selection; points are single training seeds.",
    ),
    "error_ratios": (
        "Where each prediction errs less",
        "Held-out error over that of ε in a common space, in which errors of ε, v and x0 mean the same: of networks "
        "that predict one of them alone, and of heads that all learn from every image. Mean of training seeds ± 1 "
        "standard deviation; dashed: the timestep, ± 1 standard deviation, from which on it is better than ε. What "
        "lies beyond the picture is cut off.",
    ),
    "winners": (
        "Which head wins how often",
        "Share of the training images at which each head had the smallest error, over timesteps, at four points of the "
        "training, all seeds together; white: no image came. Where the smallest loss decides, only the winner of an "
        "image learns from it.",
    ),
    "mixed_ratios": (
        "Three heads against ε alone",
        "Held-out error of each training, its heads combined as its recipe says, over that of ε alone, on the same "
        "draws; mean of training seeds ± 1 standard deviation.",
    ),
    "heads_together": (
        "What the heads are together",
        "Above: correlation of two heads’ held-out errors. Below: the weights of the blend of least variance, which "
        "sum to 1. Means of training seeds.",
    ),
}


def in_bins(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Middle of each log bin of timesteps (counted from 1) and the mean of values [T] in it, [k] both."""
    borders = log_bins(len(values))
    return np.sqrt((borders[:-1] + 1.0) * borders[1:]), np.add.reduceat(values, borders[:-1]) / np.diff(borders)


def scores(figure: Figure, found: HeadFindings) -> None:
    """FID of every way, a row each: the mean as a diamond, seeds as points."""
    axes, rows = figure.subplots(), list(ways(found))
    for row, way in enumerate(rows):
        ink, mean = colour(way.name), float(np.mean(way.scores.fid))
        axes.plot(
            way.scores.fid, [row] * len(found.seeds), linestyle="", marker="o", markersize=4, color=ink, alpha=0.5
        )
        face = ink if way.own else "white"
        axes.plot(mean, row, marker="D", markersize=8, markeredgecolor=ink, markerfacecolor=face, markeredgewidth=1.4)
    axes.set_yticks(range(len(rows)), [way_name(way.name, way.prediction, way.select) for way in rows])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("FID (lower is better), log scale")


def way_name(name: str, prediction: str, select: str) -> str:
    """A training and its selection as people read them."""
    return f"{label(name)}: {selection(select)}" if prediction == "mixed" else f"{SYMBOLS[prediction]} alone"


def ratio_curve(axes: Axes, errors: Sequence[np.ndarray], others: Sequence[np.ndarray], ink: str, text: str) -> None:
    """Errors over others, [T] of every seed, as the line of their geometric mean with a band."""
    logs = [in_bins(np.log(one) - np.log(other)) for one, other in zip(errors, others, strict=True)]
    x, ratios = logs[0][0], np.array([ratio for _, ratio in logs])
    mean, spread = ratios.mean(0), [sd(column.tolist()) for column in ratios.T]
    axes.plot(x, np.exp(mean), color=ink, linewidth=1.8, label=text)
    axes.fill_between(x, np.exp(mean - spread), np.exp(mean + spread), color=ink, alpha=0.2, linewidth=0)


def ratio_axes(axes: Axes, timesteps: int, limits: tuple[float, float]) -> None:
    """Axes of ratios around 1."""
    axes.axhline(1, color=INK, linewidth=1)
    log_scale(axes, "{:g} ×")
    axes.set_ylim(*limits)
    log_timesteps(axes, timesteps)
    axes.set_xlabel("timestep + 1, log scale")


def error_ratios(figure: Figure, found: HeadFindings) -> None:
    """v and x0 over ε in common space: alone, and as heads that all learn."""
    sources = found.by_source()
    panels = figure.subplots(1, len(sources), sharey=True, squeeze=False)[0]
    for axes, (source, errors) in zip(panels, sources.items(), strict=True):
        for prediction in ("v_prediction", "sample"):
            if prediction in errors:
                text = f"{SYMBOLS[prediction]} over ε"
                ratio_curve(axes, errors[prediction], errors["epsilon"], colour(prediction), text)
        for one in found.crossovers():
            if one.source == source and one.below == "epsilon":
                mark(axes, one, found.schedule.timesteps)
        ratio_axes(axes, found.schedule.timesteps, (0.5, 3))
        axes.set_title(source, fontsize=10, color=SOFT, loc="left")
        axes.legend(loc="upper right")
    panels[0].set_ylabel("held-out error over that of ε")


def mark(axes: Axes, switch: Crossover, timesteps: int) -> None:
    """A crossover and its spread; none where one prediction is better throughout."""
    mean, spread = float(np.mean(switch.timesteps)), sd(switch.timesteps)
    if not 0 < mean < timesteps:
        return
    ink, place = colour(switch.above), axes.get_xaxis_transform()
    axes.axvline(mean + 1, color=ink, linewidth=1.2, linestyle=(0, (4, 2)))
    axes.axvspan(max(mean + 1 - spread, 0.9), mean + 1 + spread, color=ink, alpha=0.12, linewidth=0)
    height, paper = 0.12 if switch.above == "sample" else 0.04, {"color": "white", "pad": 1.0}
    axes.text((mean + 1) * 0.96, height, f"t = {mean:.0f}", transform=place, color=ink, ha="right", bbox=paper)


def winners(figure: Figure, found: HeadFindings) -> None:
    """Share of each head's wins over timesteps: a row a training, a column a moment of it."""
    grid = figure.subplots(len(found.mixed), len(MOMENTS), sharex=True, sharey=True, squeeze=False)
    for row, mixed in zip(grid, found.mixed.values(), strict=True):
        for axes, (text, place) in zip(row, MOMENTS, strict=True):
            stack(axes, shares_at(mixed, place))
            log_timesteps(axes, found.schedule.timesteps)
            axes.set_xlabel("timestep + 1" if axes in grid[-1] else "")
            axes.set_title(text if axes in grid[0] else "", fontsize=10, color=SOFT)
            axes.set_ylim(0, 1)
            axes.grid(False)
        row[0].set_ylabel(label(mixed.name))
    handles, texts = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, texts, loc="outside upper right", ncols=len(HEADS))


def shares_at(mixed: ThreeHeads, place: float) -> np.ndarray:
    """Win shares of all seeds together at a place of the training from 0 to 1, [T, 3]."""
    wins = mixed.all_wins
    part = round(place * (len(wins.counts) - 1))
    return wins.by_timestep(slice(part, part + 1))


def stack(axes: Axes, shares: np.ndarray) -> None:
    """Shares of the heads, [T, 3], on top of each other: ε, v, x0."""
    edges, below = np.arange(len(shares) + 1) + 0.5, np.zeros(len(shares))
    for head in reversed(HEADS):
        above = below + shares[:, HEADS.index(head)]
        low, high = (np.append(edge, edge[-1]) for edge in (below, above))
        axes.fill_between(edges, low, high, step="post", color=colour(head), linewidth=0, label=SYMBOLS[head])
        below = above


def mixed_ratios(figure: Figure, found: HeadFindings) -> None:
    """Errors of mixed trainings over those of ε alone."""
    axes = figure.subplots()
    for mixed in found.mixed.values():
        text = f"{label(mixed.name)}: {selection(mixed.mixing.select)}"
        ratio_curve(axes, mixed.combined(), found.alone["epsilon"].errors, colour(mixed.name), text)
    ratio_axes(axes, found.schedule.timesteps, (0.5, 3))
    axes.set_ylabel("held-out error over that of ε alone")
    axes.legend(loc="upper left")


def heads_together(figure: Figure, found: HeadFindings) -> None:
    """Correlation of heads' errors above, weights of their blend below, a column a training."""
    grid = figure.subplots(2, len(found.mixed), sharex=True, sharey="row", squeeze=False)
    for (upper, lower), mixed in zip(grid.T, found.mixed.values(), strict=True):
        pairs = np.mean([correlations(one.products) for one in mixed.errors], axis=0)
        weights = np.mean([one.weights("blend") for one in mixed.errors], axis=0)
        for (i, j), ink in zip(combinations(range(len(HEADS)), 2), PAIR_COLOURS, strict=True):
            text = f"{SYMBOLS[HEADS[i]]} and {SYMBOLS[HEADS[j]]}"
            upper.plot(*in_bins(pairs[:, i, j]), color=ink, linewidth=1.6, label=text)
        for i, head in enumerate(HEADS):
            lower.plot(*in_bins(weights[:, i]), color=colour(head), linewidth=1.6, label=SYMBOLS[head])
        lower.axhline(0, color=INK, linewidth=0.8)
        upper.set_title(label(mixed.name), fontsize=10, color=SOFT)
        log_timesteps(lower, found.schedule.timesteps)
        lower.set_xlabel("timestep + 1")
    grid[0, 0].set_ylim(top=1.03)
    for axes, text in zip(grid[:, 0], ("correlation of errors", "weight in the blend"), strict=True):
        axes.set_ylabel(text)
    for axes in grid[:, -1]:
        axes.legend(loc="best", fontsize=8)
