"""Grouping as a stage: by the schedule alone, or by what the base loses beyond the floor."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from stage_project import write_params

from stages.group_timesteps import main
from unequal.artifacts.timestep_files import read_groups
from unequal.files import read_json, write_npz

T = 40
#: Excess loss of 4 at the first ten timesteps, of 1 at the other thirty.
EXCESS = np.repeat([4.0, 1.0], [10, 30])[:, None].repeat(3, axis=1)


def run(kind: str, floor: np.ndarray | None) -> Result:
    groups = {"ids": [0, 1], "kind": kind, "min_ratio": 0.5}
    write_params(schedule={"name": "linear", "timesteps": T}, groups=groups)
    if floor is not None:
        write_npz(Path("artifacts/profiles/base.npz"), train=EXCESS + 1)
        write_npz(Path("artifacts/profiles/floor.npz"), train=floor)
    return CliRunner().invoke(main, [])


def ranges() -> list[tuple[Any, ...]]:
    return [(one.first, one.last, one.limit_ratio) for one in read_groups(Path("artifacts/groups.json")).groups]


def test_groups_by_measured_loss_halve_its_sum(project: Path) -> None:
    """4 · 10 + 1 · 30 = 70: the first group ends where 35 are reached, and takes the whole model."""
    assert run("excess_loss", np.ones((T, 3))).exit_code == 0
    assert ranges() == [(0, 8, 1.0), (9, 39, 0.75)]
    figures = read_json(Path("results/metrics/groups.json"))
    assert (figures["timesteps_of_group_0"], figures["timesteps_of_group_1"]) == (9, 31)
    assert figures["mean_limit_ratio"] == pytest.approx((9 + 31 * 0.75) / 40)


def test_groups_by_the_schedule_look_at_no_profile(project: Path) -> None:
    assert run("uniform_increasing", None).exit_code == 0
    assert ranges() == [(0, 19, 0.75), (20, 39, 1.0)]


def test_without_a_floor_there_is_no_excess(project: Path) -> None:
    result = run("excess_loss", np.ones((T, 0)))
    complaint = "groups.kind: 'excess_loss' needs a floor; set profile.floor to all, or a number of images"
    assert (result.exit_code, result.output) == (1, f"group_timesteps: {complaint}\n")
    assert not Path("artifacts/groups.json").exists()
