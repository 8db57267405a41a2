"""Which head had the smallest error how often, over a training and over the timesteps."""

from pathlib import Path
from typing import Any

import numpy as np

from unequal.files import read_npz
from unequal.measures.loss_profile import kept_lead, win_shares


def won(file: Path) -> dict[str, Any]:
    """What the statistics of a training say.

    Returns:
        shares: of all its images, one a head.
        kept_lead: share of the timesteps that the same head leads in the first part and in the last.
        first, last: shares in each bin of these parts, [bins, 3]; none where no image came.
        starts: the first timestep of each bin.
    """
    tables = read_npz(file, ["wins", "bins"])
    wins, bins = tables["wins"], tables["bins"]
    total = wins.sum((0, 1))
    first, last = (win_shares(wins[part], bins) for part in (0, -1))
    starts = np.unique(bins, return_index=True)[1]
    return {
        "shares": (total / total.sum()).tolist(),
        "kept_lead": kept_lead(first, last),
        "starts": starts.tolist(),
        "first": known(first[starts]),
        "last": known(last[starts]),
    }


def known(shares: np.ndarray) -> list[list[float] | None]:
    """Rows of shares as JSON has them, which knows no NaN."""
    return [None if np.isnan(row).any() else row.tolist() for row in shares]
