"""Wins of three heads over timesteps, read from the statistics of a training and drawn as shares."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from unequal.diffusion.predictions import HEADS
from unequal.errors import UserError
from unequal.evaluation.loss_profile import win_shares
from unequal.report.drawing import colour, log_timesteps
from unequal.runtime.files import read_npz

#: Head → its prediction in text.
SYMBOLS = {"sample": "x0", "v_prediction": "v", "epsilon": "ε"}


class HeadWins(NamedTuple):
    """Training images on which each head has the smallest error.

    Attributes:
        counts: number of images in each part of the training and each bin of timesteps, [parts, bins, 3].
        bins: the bin of each timestep, [T].
    """

    counts: np.ndarray
    bins: np.ndarray

    @property
    def starts(self) -> np.ndarray:
        """First timestep of each bin, [bins]."""
        return np.unique(self.bins, return_index=True)[1]

    @property
    def edges(self) -> np.ndarray:
        """Ends of the bins on a log scale of timesteps counted from 1, [bins + 1]."""
        return np.append(self.starts, len(self.bins)) + 1.0

    def shares(self, part: int) -> np.ndarray:
        """Share of a part's images on which each head wins, [bins, 3]; NaN where a bin has no images."""
        return win_shares(self.counts[part], self.bins)[self.starts]


def read_wins(path: Path) -> HeadWins:
    """Read the wins of a training's heads. Raises UserError where the file is missing, damaged or of no such heads."""
    tables = read_npz(path, ["wins", "bins"])
    counts, bins = tables["wins"], tables["bins"]
    if counts.ndim != 3 or counts.shape[2] != len(HEADS) or bins.ndim != 1 or set(bins) != set(range(counts.shape[1])):
        raise UserError(f"{path}: wins {list(counts.shape)} and bins {list(bins.shape)} do not fit; make it again")
    return HeadWins(counts, bins)


def head_wins(figure: Figure, wins: HeadWins) -> None:
    """Draw the shares of the heads over timesteps, at the beginning and at the end of the training."""
    panels = figure.subplots(1, 2, sharey=True)
    for axes, part, text in zip(panels, (0, -1), ("beginning", "end"), strict=True):
        stack(axes, wins.edges, wins.shares(part))
        log_timesteps(axes, len(wins.bins))
        axes.set_ylim(0, 1)
        axes.grid(False)
        axes.set_title(f"{text} of the training", loc="left", fontsize=10)
    panels[0].set_ylabel("share of images")
    figure.legend(*panels[1].get_legend_handles_labels(), loc="outside upper right", ncols=len(HEADS))


def stack(axes: Axes, edges: np.ndarray, shares: np.ndarray) -> None:
    """Draw the shares of the heads, [bins, 3], stacked in the order ε, v, x0."""
    below = np.zeros(len(shares))
    for head in reversed(HEADS):
        above = below + shares[:, HEADS.index(head)]
        low, high = (np.append(edge, edge[-1]) for edge in (below, above))
        axes.fill_between(edges, low, high, step="post", color=colour(head), linewidth=0, label=SYMBOLS[head])
        below = above
