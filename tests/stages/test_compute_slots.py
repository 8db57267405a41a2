"""Slots and groups as stages: by the base's loss, by what it loses beyond the floor, or by the schedule alone."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from stage_project import write_params

from stages import compute_slots, group_timesteps
from unequal.runtime.files import read_json, write_npz
from unequal.training.timestep_files import read_groups

T = 40
pytestmark = pytest.mark.usefixtures("project")


def run(losses: np.ndarray, floor: np.ndarray, count: int = 4, loss: str = "total") -> Result:
    write_params(slots={"count": count, "loss": loss})
    for name, table in (("base", losses), ("floor", floor)):
        write_npz(Path(f"artifacts/profiles/{name}.npz"), train=table)
    return CliRunner().invoke(compute_slots.main, [])


def flat(*levels: float) -> np.ndarray:
    return np.repeat(levels, T // len(levels))[:, None] * np.array([[0.9, 1.1]])


@pytest.mark.parametrize(("loss", "chosen"), [("total", [[0, 9], [10, 19], [20, 29], [30, 39]]), ("excess", None)])
def test_the_chosen_set_is_handed_on_and_both_are_shown(loss, chosen):
    """Constant loss, but the floor takes ¾ of it in the upper half: 10 and 5 slots' worth of excess a part."""
    assert run(flat(1.0), flat(0.25, 0.75), loss=loss).exit_code == 0
    total, excess = [[0, 9], [10, 19], [20, 29], [30, 39]], [[0, 6], [7, 12], [13, 19], [20, 39]]
    assert read_json(Path("artifacts/slots.json")) == {"timesteps": T, "loss": loss, "slots": chosen or excess}
    assert read_json(Path("results/metrics/slots.json")) == {"total": total, "excess": excess}
    table = list(csv.DictReader(Path("results/slots.csv").read_text().splitlines()))
    assert [row["slot"] for row in table] == ["1", "2", "3", "4"]
    assert [[int(row["excess_first"]), int(row["excess_last"])] for row in table] == excess
    # An equal-loss slot below holds 10 · ¾ of 20 · ¾ + 20 · ¼.
    assert [float(row["total_share_of_excess"]) for row in table] == pytest.approx([0.375, 0.375, 0.125, 0.125])
    assert sum(float(row["excess_share_of_total"]) for row in table) == pytest.approx(1)


def test_without_a_floor_there_is_one_set():
    assert run(flat(1.0), np.zeros((T, 0), np.float32)).exit_code == 0
    assert set(read_json(Path("results/metrics/slots.json"))) == {"total"}
    result = run(flat(1.0), np.zeros((T, 0), np.float32), loss="excess")
    assert result.output == "compute_slots: slots.loss: 'excess' needs a floor; allowed: total\n"


def test_a_set_that_cannot_be_split_matters_where_it_is_chosen_alone():
    """All excess at one timestep: nothing to split into four."""
    losses, floor = flat(1.0), flat(1.0)
    floor[5] = 0
    assert run(losses, floor).exit_code == 0
    assert set(read_json(Path("results/metrics/slots.json"))) == {"total"}
    result = run(losses, floor, loss="excess")
    assert (result.exit_code, result.output.count("\n")) == (1, 1)
    assert result.output.startswith("compute_slots: of 4 slots, number 2 from the data end is empty")


#: Excess loss of 4 at the first ten timesteps, of 1 at the other thirty.
EXCESS = np.repeat([4.0, 1.0], [10, 30])[:, None].repeat(3, axis=1)


def grouped(kind: str, floor: np.ndarray | None) -> Result:
    groups = {"ids": [0, 1], "kind": kind, "min_ratio": 0.5}
    write_params(schedule={"name": "linear", "timesteps": T}, groups=groups)
    if floor is not None:
        write_npz(Path("artifacts/profiles/base.npz"), train=EXCESS + 1)
        write_npz(Path("artifacts/profiles/floor.npz"), train=floor)
    return CliRunner().invoke(group_timesteps.main, [])


def groups() -> list[tuple[Any, ...]]:
    return [(one.first, one.last, one.limit_ratio) for one in read_groups(Path("artifacts/groups.json")).groups]


def test_groups_by_measured_loss_halve_its_sum():
    """4 · 10 + 1 · 30 = 70: the first group ends where 35 are reached, and takes the whole model."""
    assert grouped("excess_loss", np.ones((T, 3))).exit_code == 0
    assert groups() == [(0, 8, 1.0), (9, 39, 0.75)]
    figures = read_json(Path("results/metrics/groups.json"))
    assert (figures["timesteps_of_group_0"], figures["timesteps_of_group_1"]) == (9, 31)
    assert figures["mean_limit_ratio"] == pytest.approx((9 + 31 * 0.75) / 40)


def test_groups_by_the_schedule_look_at_no_profile():
    assert grouped("uniform_increasing", None).exit_code == 0
    assert groups() == [(0, 19, 0.75), (20, 39, 1.0)]


def test_without_a_floor_there_is_no_excess():
    result = grouped("excess_loss", np.ones((T, 0)))
    complaint = "groups.kind: 'excess_loss' needs a floor; set profile.floor to all, or a number of images"
    assert (result.exit_code, result.output) == (1, f"group_timesteps: {complaint}\n")
    assert not Path("artifacts/groups.json").exists()
