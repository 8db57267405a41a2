"""Heads of one network in other combinations, by weights that are known."""

from pathlib import Path

import numpy as np

from studies.predictions.measure_heads import HALVES, by_samples, swapped, won
from unequal.data.prepared import PreparedData
from unequal.evaluation.sets import Reference
from unequal.files import write_npz
from unequal.timesteps.partition import Partition


def test_one_head_answers_where_it_is_chosen() -> None:
    least = np.tile(np.eye(3)[0], (6, 1))
    ranges = Partition.of_lengths([2, 4])
    assert swapped(least, ranges[1], 2).argmax(1).tolist() == [0, 0, 2, 2, 2, 2]
    assert least.argmax(1).tolist() == [0] * 6
    chosen = by_samples(ranges, [[3.0, 1.0, 2.0], [0.5, 1.0, 0.4]])
    assert chosen.argmax(1).tolist() == [1, 1, 2, 2, 2, 2]
    assert chosen.sum(1).tolist() == [1.0] * 6


def test_choice_and_report_share_no_image(prepared: PreparedData) -> None:
    choice, report = (Reference.of(prepared, half) for half in HALVES)
    assert len(choice.images) + len(report.images) == len(prepared.holdout)
    together = {one.tobytes() for one in choice.images} | {one.tobytes() for one in report.images}
    assert together == {one.tobytes() for one in prepared.holdout}
    assert not {one.tobytes() for one in choice.images} & {one.tobytes() for one in report.images}
    assert choice.name != report.name


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
