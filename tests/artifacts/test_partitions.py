"""Slots and groups as files: what is altered or not there is refused in one line."""

from pathlib import Path

import pytest

from unequal.artifacts.timestep_files import read_groups, read_slots
from unequal.errors import UserError
from unequal.files import write_json

SLOTS = {"timesteps": 10, "loss": "total", "slots": [[0, 3], [4, 9]]}
GROUPS = {
    "timesteps": 10,
    "schedule": "linear",
    "kind": "snr",
    "min_ratio": 0.5,
    "groups": [
        {"group": 0, "first": 0, "last": 3, "limit_ratio": 0.75},
        {"group": 1, "first": 4, "last": 9, "limit_ratio": 1.0},
    ],
}


def written(path: Path, content: object) -> Path:
    write_json(path, content)
    return path


def test_slots_count_from_one_and_groups_from_zero(tmp_path: Path) -> None:
    slots = read_slots(written(tmp_path / "slots.json", SLOTS), 10)
    assert [slots.numbered(1), slots.numbered(2)] == [(0, 3), (4, 9)]
    groups = read_groups(written(tmp_path / "groups.json", GROUPS))
    assert (groups.numbered(1).first, groups.numbered(1).last, groups.numbered(1).limit_ratio) == (4, 9, 1.0)


@pytest.mark.parametrize("number", [0, 3, -1])
def test_a_slot_that_is_not_there(tmp_path: Path, number: int) -> None:
    with pytest.raises(UserError, match=rf"slot {number}: there are slots 1 … 2"):
        read_slots(written(tmp_path / "slots.json", SLOTS), 10).numbered(number)


@pytest.mark.parametrize("number", [2, -1])
def test_a_group_that_is_not_there(tmp_path: Path, number: int) -> None:
    with pytest.raises(UserError, match=rf"group {number}: there are groups 0 … 1"):
        read_groups(written(tmp_path / "groups.json", GROUPS)).numbered(number)


@pytest.mark.parametrize("slots", [[[0, 3], [5, 9]], [[0, 4], [4, 9]], [[0, 4], [6, 5], [5, 9]]])
def test_slots_that_do_not_cover_all_timesteps_once(tmp_path: Path, slots: list[list[int]]) -> None:
    with pytest.raises(UserError, match=r"slots\.json: .* do not cover timesteps 0 … 9 once each$"):
        read_slots(written(tmp_path / "slots.json", SLOTS | {"slots": slots}), 10)


@pytest.mark.parametrize(("slots", "last"), [([[0, 3], [4, 10]], 10), ([[0, 8]], 8)])
def test_slots_that_end_elsewhere(tmp_path: Path, slots: list[list[int]], last: int) -> None:
    with pytest.raises(UserError, match=rf"slots\.json: the slots end at t = {last}, the model at t = 9"):
        read_slots(written(tmp_path / "slots.json", SLOTS | {"slots": slots}), 10)


@pytest.mark.parametrize(
    ("ranges", "complaint"),
    [
        ([(0, 0, 3), (1, 5, 9)], "groups [[0, 3], [5, 9]] do not cover timesteps 0 … 9 once each"),
        ([(0, 0, 3), (1, 4, 10)], "the groups end at t = 10, the model at t = 9: they are of another T"),
        ([(1, 0, 3), (0, 4, 9)], "groups are not numbered 0, 1, 2 … from the data end"),
    ],
)
def test_groups_that_do_not_cover_all_timesteps_in_order(
    tmp_path: Path, ranges: list[tuple[int, int, int]], complaint: str
) -> None:
    rows = [{"group": number, "first": first, "last": last, "limit_ratio": 0.5} for number, first, last in ranges]
    with pytest.raises(UserError) as refusal:
        read_groups(written(tmp_path / "groups.json", GROUPS | {"groups": rows}))
    assert str(refusal.value).endswith(complaint)
