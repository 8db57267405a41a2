"""A sampler comes back from its file as it was, and holds no more than it needs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from unequal.artifacts.timestep_files import read_sampler, write_sampler
from unequal.diffusion.schedule import NoiseSchedule
from unequal.files import read_json
from unequal.settings.profile import BaseMeasurements
from unequal.settings.samplers import AnySampler
from unequal.timesteps.partition import Partition

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
