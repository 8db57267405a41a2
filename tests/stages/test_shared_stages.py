"""Stages that several processes share: one command, and what one process makes."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stage_project
from click.testing import CliRunner
from safetensors.numpy import load_file
from small_inputs import RECIPE, SETTINGS
from stage_project import write_params

from stages import profile_loss
from unequal.models.folder import save_model
from unequal.runtime.files import content_hash

ROOT = Path(__file__).parents[2]
TWO = stage_project.RUNTIME | {"processes": 2}
FILES = ("artifacts/profiles/base.npz", "results")


@pytest.fixture(autouse=True)
def data(project, prepared):
    shutil.copytree(prepared.path, "artifacts/data")


def run(runtime: dict[str, Any], monkeypatch: pytest.MonkeyPatch, sections: dict[str, Any], *command: str) -> str:
    monkeypatch.setattr(stage_project, "RUNTIME", runtime)
    write_params(**sections)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        ["python", "-m", *command], env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    return f"{ended.returncode} {ended.stderr}"


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.usefixtures("warm_start")
def test_a_profile_is_the_same_bytes(monkeypatch, tiny_net, make_record):
    net = tiny_net()
    save_model(Path("artifacts/models/base"), net, make_record(net))
    settings = {"seed": 0, "profile": {"images": 3, "batch_size": 16, "floor": "all"}}
    write_params(**settings)
    assert CliRunner().invoke(profile_loss.main, ["--model", "base"]).exit_code == 0
    found = [content_hash(Path(name)) for name in FILES]
    shutil.rmtree("results")
    said = run(TWO, monkeypatch, settings, "stages.profile_loss", "--model", "base")
    assert said.startswith("0"), said
    assert [content_hash(Path(name)) for name in FILES] == found
    assert not list(Path("artifacts/work").glob("*")) or not any(Path("artifacts/work").rglob("*.chunk"))


def training(batch_size: int = 7) -> dict[str, Any]:
    """The sections that a training of the base reads."""
    read = {name: SETTINGS[name] for name in ("seed", "schedule", "network")}
    training = SETTINGS["training"] | {"batch_size": batch_size, "checkpoint_every": 4}
    return read | {"training": training, "recipes": {"base": RECIPE | {"images": 35}}}


def trained(runtime: dict[str, Any], monkeypatch: pytest.MonkeyPatch, sections: dict[str, Any]) -> dict[str, Any]:
    said = run(runtime, monkeypatch, sections, "stages.train_base")
    assert said.startswith("0"), said
    return load_file(next(Path("artifacts/models/base").rglob("*.safetensors")))


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.usefixtures("warm_start")
def test_more_processes_than_images_of_a_batch_are_one_line(monkeypatch):
    said = run(TWO, monkeypatch, training(batch_size=1), "stages.train_base")
    assert said.startswith("1 train_base: 2 processes, each with 1 accumulated part(s), cannot share a batch of 1")
    assert said.count("\n") == 1
    assert not Path("artifacts/models").exists()


@pytest.mark.gpu(2)
def test_a_training_takes_all_gpus(monkeypatch):
    on_gpus = [stage_project.RUNTIME | {"device": "cuda", "processes": processes} for processes in (1, None)]
    weights = [trained(runtime, monkeypatch, training(batch_size=12)) for runtime in on_gpus]
    for name, value in weights[0].items():
        np.testing.assert_allclose(weights[1][name], value, atol=1e-3)
