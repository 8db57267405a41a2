"""Wins of three heads over timesteps: read from the statistics of a training, drawn as shares."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from unequal.diffusion.predictions import HEADS
from unequal.errors import UserError
from unequal.files import read_npz
from unequal.measures.loss_profile import win_shares
from unequal.report.drawing import colour, log_timesteps

#: Head → how people write its prediction.
SYMBOLS = {"sample": "x0", "v_prediction": "v", "epsilon": "ε"}


class HeadWins(NamedTuple):
    """Training images at which each head had the smallest error.

    Attributes:
        counts: in each part of the training and each bin of timesteps, [parts, bins, 3].
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
        """Ends of the bins where timesteps are counted from 1, as on a log scale, [bins + 1]."""
        return np.append(self.starts, len(self.bins)) + 1.0

    def shares(self, part: int) -> np.ndarray:
        """Share of the images of a part at which each head won, [bins, 3]; NaN where a bin has seen none."""
        return win_shares(self.counts[part], self.bins)[self.starts]


def read_wins(path: Path) -> HeadWins:
    """Read the wins of a training's heads. Raises UserError where the file is missing, damaged or of no such heads."""
    tables = read_npz(path, ["wins", "bins"])
    counts, bins = tables["wins"], tables["bins"]
    if counts.ndim != 3 or counts.shape[2] != len(HEADS) or bins.ndim != 1 or set(bins) != set(range(counts.shape[1])):
        raise UserError(f"{path}: wins {list(counts.shape)} and bins {list(bins.shape)} do not fit; make it again")
    return HeadWins(counts, bins)


def head_wins(figure: Figure, wins: HeadWins) -> None:
    """Shares of the heads over timesteps, at the beginning of the training and at its end."""
    panels = figure.subplots(1, 2, sharey=True)
    for axes, part, text in zip(panels, (0, -1), ("beginning", "end"), strict=True):
        stack(axes, wins.edges, wins.shares(part))
        log_timesteps(axes, len(wins.bins))
        axes.set_ylim(0, 1)
        axes.grid(False)
        axes.set_title(f"{text} of the training", loc="left", fontsize=10)
    panels[0].set_ylabel("share of images")
    panels[1].legend(loc="lower right")


def stack(axes: Axes, edges: np.ndarray, shares: np.ndarray) -> None:
    """Shares of the heads, [bins, 3], on top of each other: ε, v, x0."""
    below = np.zeros(len(shares))
    for head in reversed(HEADS):
        above = below + shares[:, HEADS.index(head)]
        low, high = (np.append(edge, edge[-1]) for edge in (below, above))
        axes.fill_between(edges, low, high, step="post", color=colour(head), linewidth=0, label=SYMBOLS[head])
        below = above
