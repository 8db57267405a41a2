"""Slots, groups and samplers as files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_inputs
from one_line import refusal
from pydantic import TypeAdapter

from unequal.artifacts.timestep_files import read_groups, read_sampler, read_slots, write_sampler
from unequal.diffusion.schedule import NoiseSchedule
from unequal.files import read_json, write_json
from unequal.settings.sampler_base import BaseMeasurements
from unequal.settings.samplers import AnySampler
from unequal.timesteps.partition import Partition

SLOTS = {"timesteps": 10, "loss": "total", "slots": [[0, 3], [4, 9]]}
GROUPS = small_inputs.GROUPS | {"timesteps": 10}
GROUPS["groups"] = [GROUPS["groups"][0] | {"last": 3}, GROUPS["groups"][1] | {"first": 4, "last": 9}]


def written(path: Path, content: object) -> Path:
    write_json(path, content)
    return path


def test_slots_count_from_one_and_groups_from_zero(tmp_path: Path) -> None:
    slots = read_slots(written(tmp_path / "slots.json", SLOTS), 10)
    assert [slots.numbered(1), slots.numbered(2)] == [(0, 3), (4, 9)]
    groups = read_groups(written(tmp_path / "groups.json", GROUPS))
    assert (groups.numbered(1).first, groups.numbered(1).last, groups.numbered(1).limit_ratio) == (4, 9, 1.0)


@pytest.mark.parametrize("number", [0, 3, -1])
def test_a_slot_or_group_that_is_not_there(tmp_path: Path, number: int) -> None:
    slots, groups = written(tmp_path / "slots.json", SLOTS), written(tmp_path / "groups.json", GROUPS)
    assert f"slot {number}: there are slots 1 … 2" in refusal(read_slots(slots, 10).numbered, number)
    assert f"group {number - 1}: there are groups 0 … 1" in refusal(read_groups(groups).numbered, number - 1)


T = 30
SCHEDULE = NoiseSchedule.linear(T)
LOSSES = np.random.default_rng(0).gamma(2.0, size=(T, 2))
BASE = BaseMeasurements(loss=LOSSES.mean(1), losses=LOSSES, slots=Partition([(0, 9), (10, 29)]))
CHOSEN: dict[str, tuple[dict[str, Any], set[str]]] = {
    "uniform": ({}, set()),
    "loss": ({}, {"loss"}),
    "slots": ({"draw": "stratified"}, {"slots"}),
    "loss_second_moment": ({"history": 2, "warm_start": True}, {"losses"}),
}


@pytest.mark.parametrize("kind", CHOSEN)
def test_a_sampler_comes_back_with_what_it_needs(kind: str, tmp_path: Path) -> None:
    keys, needs = CHOSEN[kind]
    sampler = TypeAdapter(AnySampler).validate_python({"density": kind} | keys)
    write_sampler(tmp_path / "one.json", sampler, BASE, T)
    assert set(read_json(tmp_path / "one.json")) == {*type(sampler).model_fields, *needs, "timesteps"}
    read = read_sampler(tmp_path / "one.json", SCHEDULE)
    built = sampler.build(SCHEDULE, BASE)
    assert type(read) is type(built)
    np.testing.assert_array_equal(read.probabilities, built.probabilities)
