"""Both sets of slots side by side: of the base's loss, and of what it loses beyond the floor."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from stage_project import write_params

from stages.compute_slots import main
from unequal.files import write_npz

T = 40
pytestmark = pytest.mark.usefixtures("project")


def run(losses: np.ndarray, floor: np.ndarray, count: int = 4, loss: str = "total") -> Result:
    write_params(slots={"count": count, "loss": loss})
    for name, table in (("base", losses), ("floor", floor)):
        write_npz(Path(f"artifacts/profiles/{name}.npz"), train=table)
    return CliRunner().invoke(main, [])


def flat(*levels: float) -> np.ndarray:
    return np.repeat(levels, T // len(levels))[:, None] * np.array([[0.9, 1.1]])


def ranges(path: str) -> Any:
    return json.loads(Path(path).read_text())


@pytest.mark.parametrize(("loss", "chosen"), [("total", [[0, 9], [10, 19], [20, 29], [30, 39]]), ("excess", None)])
def test_the_chosen_set_is_handed_on_and_both_are_shown(loss: str, chosen: list[list[int]] | None) -> None:
    """Constant loss, but the floor takes ¾ of it in the upper half: 10 and 5 slots' worth of excess a part."""
    assert run(flat(1.0), flat(0.25, 0.75), loss=loss).exit_code == 0
    excess = [[0, 6], [7, 12], [13, 19], [20, 39]]
    assert ranges("artifacts/slots.json") == {"timesteps": T, "loss": loss, "slots": chosen or excess}
    assert ranges("results/metrics/slots.json") == {"total": [[0, 9], [10, 19], [20, 29], [30, 39]], "excess": excess}
    table = list(csv.DictReader(Path("results/slots.csv").read_text().splitlines()))
    assert [row["slot"] for row in table] == ["1", "2", "3", "4"]
    assert [[int(row["excess_first"]), int(row["excess_last"])] for row in table] == excess
    # An equal-loss slot below holds 10 · ¾ of 20 · ¾ + 20 · ¼.
    assert [float(row["total_share_of_excess"]) for row in table] == pytest.approx([0.375, 0.375, 0.125, 0.125])
    assert sum(float(row["excess_share_of_total"]) for row in table) == pytest.approx(1)


def test_without_a_floor_there_is_one_set() -> None:
    assert run(flat(1.0), np.zeros((T, 0), np.float32)).exit_code == 0
    assert set(ranges("results/metrics/slots.json")) == {"total"}
    result = run(flat(1.0), np.zeros((T, 0), np.float32), loss="excess")
    assert result.output == "compute_slots: slots.loss: 'excess' needs a floor; allowed: total\n"


def test_a_set_that_cannot_be_split_matters_where_it_is_chosen_alone() -> None:
    """All excess at one timestep: nothing to split into four."""
    losses, floor = flat(1.0), flat(1.0)
    floor[5] = 0
    assert run(losses, floor).exit_code == 0
    assert set(ranges("results/metrics/slots.json")) == {"total"}
    result = run(losses, floor, loss="excess")
    assert (result.exit_code, result.output.count("\n")) == (1, 1)
    assert result.output.startswith("compute_slots: of 4 slots, number 2 from the data end is empty")
