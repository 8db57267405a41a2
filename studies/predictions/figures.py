"""Pictures of predictions over timesteps: where each errs less, alone and as a head, and who wins when."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from studies.predictions.findings import Heads
from studies.predictions.tables import SYMBOLS
from unequal.comparison.figures import WIDTH
from unequal.comparison.results import Found
from unequal.diffusion.predictions import HEADS
from unequal.report.drawing import INK, colour, log_scale, log_timesteps
from unequal.report.formatting import label
from unequal.report.page import Drawing

#: Ratios beyond these are cut off.
LIMITS = (0.5, 4.0)
#: Parts of a training at which winners are shown.
MOMENTS = {"first": "first twentieth", "last": "last twentieth"}


def drawings(found: Found, heads: Sequence[Heads], alone: Mapping[str, str]) -> list[Drawing]:
    """All pictures of the study's own; `alone` are the arms that predict one thing, by what they predict."""
    return [
        Drawing(
            "errors",
            (WIDTH, 2.6 + 2.6 * ((len(heads) + 1) // 2)),
            partial(errors, found=found, heads=heads, alone=alone),
            "Where each prediction errs less",
            "Held-out loss of ε over that of the network that predicts ε alone, of the same draws: of networks that "
            "predict one thing, and of the heads of networks that predict all three. Geometric mean over blocks ± its "
            "standard error; what lies beyond the picture is cut off.",
        ),
        Drawing(
            "winners",
            (WIDTH, 0.8 + 2.2 * len(heads)),
            partial(winners, heads=heads, timesteps=int(found.any["curve"]["timesteps"][0])),
            "Which head wins how often",
            "Share of the training images at which each head had the smallest error, over timesteps, mean over blocks; "
            "white: no image came. Where the smallest loss decides, only the winner of an image learns from it.",
        ),
    ]


def errors(figure: Figure, found: Found, heads: Sequence[Heads], alone: Mapping[str, str]) -> None:
    """A panel for networks of one head, and one for each of three."""
    sources = {"alone": {head: found.curves(arm) for head, arm in alone.items()}} | {
        f"heads of {label(one.arm)}": {head: one.curve(place) for place, head in enumerate(HEADS)} for one in heads
    }
    first, timesteps = np.array(found.any["curve"]["first"]) + 1.0, int(found.any["curve"]["timesteps"][0])
    middle = np.sqrt(first * np.append(first[1:], timesteps + 1))
    grid = figure.subplots((len(sources) + 1) // 2, 2, sharex=True, sharey=True, squeeze=False)
    for axes, (source, curves) in zip(grid.flat, sources.items(), strict=False):
        for head in HEADS:
            ratio_curve(axes, middle, curves[head], found.curves(alone["epsilon"]), head)
        axes.axhline(1, color=INK, linewidth=1)
        log_scale(axes, "{:g} ×")
        axes.set_ylim(*LIMITS)
        log_timesteps(axes, timesteps)
        axes.set_title(source, loc="left", fontsize=10)
    for axes in list(grid.flat)[len(sources) :]:
        axes.set_visible(False)
    grid[0, 0].legend(loc="upper left")


def ratio_curve(axes: Axes, middle: np.ndarray, losses: np.ndarray, others: np.ndarray, head: str) -> None:
    """Losses [blocks, bins] over others'."""
    logs = np.log(losses) - np.log(others)
    mean, error = logs.mean(0), logs.std(0, ddof=1) / np.sqrt(len(logs))
    axes.plot(middle, np.exp(mean), color=colour(head), linewidth=1.6, label=SYMBOLS[head])
    axes.fill_between(middle, np.exp(mean - error), np.exp(mean + error), color=colour(head), alpha=0.2, linewidth=0)


def winners(figure: Figure, heads: Sequence[Heads], timesteps: int) -> None:
    """A row an arm, a column a part of its training."""
    grid = figure.subplots(len(heads), len(MOMENTS), sharex=True, sharey=True, squeeze=False)
    for row, one in zip(grid, heads, strict=True):
        for axes, (moment, text) in zip(row, MOMENTS.items(), strict=True):
            stack(axes, np.array([*one.starts, timesteps]) + 1.0, one.wins(moment).mean(0))
            log_timesteps(axes, timesteps)
            axes.set_ylim(0, 1)
            axes.grid(False)
            axes.set_title(f"{label(one.arm)}, {text}", loc="left", fontsize=10)
    handles, texts = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, texts, loc="outside upper right", ncols=len(HEADS))


def stack(axes: Axes, edges: np.ndarray, shares: np.ndarray) -> None:
    """Shares of the heads, [bins, 3], on top of each other: ε, v, x0."""
    below = np.zeros(len(shares))
    for head in reversed(HEADS):
        above = below + shares[:, HEADS.index(head)]
        low, high = (np.append(edge, edge[-1]) for edge in (below, above))
        axes.fill_between(edges, low, high, step="post", color=colour(head), linewidth=0, label=SYMBOLS[head])
        below = above
