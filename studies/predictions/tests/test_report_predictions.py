"""The study's page, of made-up heads whose answers are known."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from studies.predictions.measure_heads import won
from studies.predictions.report_heads import (
    COMBINATIONS,
    Heads,
    combinations_table,
    read_heads,
    swaps_table,
    winners_table,
)
from unequal.errors import UserError
from unequal.files import write_json, write_npz

BLOCKS = (0, 1, 2)


def heads(block: int) -> dict[str, Any]:
    """x0 in the place of ε costs a tenth more in the first range, and in every block but for its noise."""
    noise = float(np.exp(0.01 * (block - 1)))
    return {
        "arm": "three",
        "block": block,
        "combinations": {
            name: {"fid": 1.0 + 0.1 * place + 0.01 * block, "loss_over_timesteps": 0.1}
            for place, name in enumerate(COMBINATIONS)
        },
        "swaps": {"ranges": [[0, 3], [4, 9]], "least": 2.0, "fid": [[2.2 * noise, 2.0, 2.0], [2.0, 2.0, 1.0]]},
        "curves": [[1.0, 1.0, 1.0], [2.0, 1.0, 1.0], [1.0, 2.0, 2.0]],
        "wins": {
            "shares": [0.5, 0.3, 0.2],
            "kept_lead": 0.8,
            "starts": [0, 4],
            "first": [[0.2, 0.3, 0.5], None],
            "last": [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]],
        },
    }


def found() -> Heads:
    return Heads("three", [heads(block) for block in BLOCKS])


def test_what_was_put_in_comes_out_of_the_tables() -> None:
    assert [row[2] for row in combinations_table([found()]).rows[:2]] == ["1.01 ± 0.01", "1.11 ± 0.01"]
    first, second = swaps_table([found()]).rows
    # The logarithms lie 0.01 apart, so that their standard error is 0.01/√3.
    assert first[:3] == ("three", "0 … 3", "+10.0 % ± 0.58 %")
    assert second[-1] == "−50.0 % ± 0.00 %"
    assert winners_table([found()]).rows == [("three", "50.0 %", "30.0 %", "20.0 %", "80.0 %")]


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


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"block": 5}, "holds 'three' in block 5; measure it again"),
        ({"combinations": {}}, "combination 'profile' is missing; measure the heads again"),
        ({"swaps": {"ranges": [[0, 9]], "least": 1.0, "fid": [[1, 1, 1]]}}, "other ranges than"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_line(tmp_path: Path, changes: dict[str, Any], complaint: str) -> None:
    for block in BLOCKS:
        write_json(tmp_path / f"three/block_{block}.json", heads(block) | (changes if block == 1 else {}))
    with pytest.raises(UserError, match=complaint) as refusal:
        read_heads(tmp_path, ["three"], BLOCKS)
    assert "\n" not in str(refusal.value)
