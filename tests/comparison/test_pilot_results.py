"""The files of a pilot's trainings: what is read of them, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from one_line import refusal

from unequal.comparison.pilot_results import read_arms, read_bases
from unequal.comparison.settings import Pilot, PilotArms, Try
from unequal.runtime.files import read_json, write_json

PILOT = Pilot(
    arms=PilotArms(fresh=(), continued=("control", "lower")),
    tries={"half": Try(lr=5e-4), "whole": Try()},
    seeds=(8, 9),
    share=0.25,
    chosen={},
)
ENDPOINTS = {"loss_over_timesteps": 0.5, "fid": 2.0}
TRAINING = {"endpoints": ENDPOINTS, "costs": {"images": 100, "training_seconds": 5.0, "measuring_seconds": 1.0}}


@pytest.fixture
def folder(tmp_path):
    for seed in PILOT.seeds:
        write_json(tmp_path / f"base/block_{seed}.json", TRAINING | {"block": seed, "half": ENDPOINTS})
        for arm in PILOT.arms.all:
            tries = {label: TRAINING | {"lr": 1e-3} for label in ("whole", "half")}
            write_json(tmp_path / f"{arm}/block_{seed}.json", {"arm": arm, "block": seed, "tries": tries})
    return tmp_path


def read(folder: Path) -> Any:
    return read_bases(folder, PILOT), read_arms(folder, PILOT)


@pytest.mark.parametrize(
    ("name", "damage", "complaint"),
    [
        ("base", '{"block": 8', "not valid JSON"),
        ("base", {"endpoints": {"loss_over_timesteps": 1.0, "fid": -1.0}}, "endpoints.fid: -1.0"),
        ("lower", {"tries": {"half": TRAINING, "whole": TRAINING}}, "lr"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(folder, name, damage, complaint):
    file = folder / name / "block_8.json"
    changed = read_json(file) | damage if isinstance(damage, dict) else damage
    file.write_text(changed if isinstance(changed, str) else json.dumps(changed))
    line = refusal(read, folder)
    assert line.startswith(f"{file}: ") and complaint in line
