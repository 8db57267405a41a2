"""Statistics of a training of three heads, by counts that are known."""

from pathlib import Path

import numpy as np

from studies.predictions.measure_heads import won
from unequal.runtime.files import write_npz


def test_wins_are_shares_of_what_came(tmp_path: Path) -> None:
    """Two bins of two timesteps, of which the second has seen nothing at first."""
    wins = np.array([[[3, 1, 0], [0, 0, 0]], [[0, 4, 0], [0, 0, 8]]])
    write_npz(tmp_path / "wins.npz", wins=wins, bins=np.array([0, 0, 1, 1]))
    assert won(tmp_path / "wins.npz") == {
        "shares": [3 / 16, 5 / 16, 8 / 16],
        "kept_lead": 0.0,
        "starts": [0, 2],
        "first": [[0.75, 0.25, 0.0], None],
        "last": [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    }
