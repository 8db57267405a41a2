"""A block from its scout to its mechanism, as programs on a tiny project."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from diffusers.models.unets.unet_2d import UNet2DModel
from stage_project import write_params

from stages import build_extractor
from studies.small_batches.densities import Densities
from studies.small_batches.stages import measure_densities, measure_gradients, pilot_arm, retrain, train_arm
from unequal.data.prepared import PreparedData
from unequal.files import write_json
from unequal.models.folder import ModelRecord, load_record, save_model
from unequal.settings.network import UNet2D
from unequal.settings.training import Training

pytestmark = pytest.mark.slow

DENSITIES = "results/densities.json"
SLOTS = [[0, 4], [5, 20], [21, 49]]
OPTIMIZER = {"lr": 1.0e-3, "betas": [0.9, 0.99], "weight_decay": 0.0, "warmup_images": 0, "decay": "cosine"}
RECIPE: dict[str, Any] = {
    "images": 32,
    "keep_state": True,
    "snapshots": [16],
    "prediction": "epsilon",
    "sampler": {"density": "uniform"},
    "loss_weight": {"kind": "none"},
    "optimizer": OPTIMIZER,
}


@pytest.fixture(autouse=True)
def study(
    project: Path,
    prepared: PreparedData,
    tiny_net: Callable[..., UNet2DModel],
    make_record: Callable[..., ModelRecord],
    network_settings: Callable[..., UNet2D],
    training_settings: Callable[..., Training],
) -> None:
    shutil.copytree(prepared.path, "artifacts/data")
    net = tiny_net()
    save_model(Path("artifacts/models/base"), net, make_record(net))
    write_json(Path("artifacts/slots.json"), {"timesteps": 50, "loss": "total", "slots": SLOTS})
    write_params(
        seed=0,
        schedule={"name": "linear", "timesteps": 50},
        network=network_settings().model_dump(mode="json"),
        training=training_settings().model_dump(mode="json"),
        recipes={"small": RECIPE, "even": RECIPE},
        arms={"small": {"batch_size": 4}, "even": {"batch_size": 4, "density": "slots", "serves": "draws"}},
        pilot={"arms": ["small", "even"], "tries": {"low": {"lr": 5e-4}, "high": {}}, "seeds": [5, 6], "share": 0.5},
        gradients={
            "arms": ["small"],
            "batch_size": 4,
            "parts": 2,
            "folds": 4,
            "single_images": 4,
            "mean_images": 16,
            "uniform_share": 0.1,
        },
        retraining={
            "arms": ["small"],
            "ways": ["uniform", "slot_3"],
            "images": 16,
            "warmup_images": 0,
            "lr_share": 0.5,
            "power": 2.0,
            "samples": 3,
        },
        profile={"images": 4, "batch_size": 64, "floor": "none"},
        extractor={"kind": "classifier", "weights": None, "features": 4, "images": 64, "batch_size": 8, "lr": 1.0e-3},
        sampling={"steps": 3, "spacing": "uniform", "eta": 0.0, "clip": True, "batch_size": 16},
        evaluation={"samples": 12, "seeds": [0], "against": "holdout", "kid_subset": 6, "allow_singular": False},
    )


def run(program: Any, *options: Any) -> None:
    result = CliRunner().invoke(program.main, list(map(str, options)))
    assert result.exit_code == 0, result.output


def figures(path: str) -> Any:
    return json.loads(Path(path).read_text())


def test_a_block_comes_to_its_mechanism() -> None:
    run(measure_densities)
    densities = Densities.load(Path(DENSITIES))
    assert [list(slot) for slot in densities.slots] == SLOTS
    assert len(densities.cells) == len(densities.second_moments) == 6
    for arm in ("small", "even"):
        run(train_arm, "--arm", arm, "--block", 3)
    small, even = (figures(f"results/trainings/{arm}/block_3.json") for arm in ("small", "even"))
    assert small["made_by"] != even["made_by"]
    assert small["images"] == even["images"] == 32
    assert load_record(Path("artifacts/models/small/block_3")).steps == 8
    run(measure_gradients, "--arm", "small", "--block", 3)
    points = figures("results/gradients/small/block_3.json")["points"]
    assert [one["images"] for one in points] == [16, 32]
    for metric in ("raw", "adam"):
        for name in ("noise_scale", "between_share", "variance_slots", "variance_least_variance", "cosines"):
            assert set(points[0][metric][name]) == {"value", "stderr"}
    assert np.shape(points[0]["raw"]["cosines"]["value"]) == (3, 3)
    run(retrain, "--arm", "small", "--block", 3)
    found = figures("results/retrained/small/block_3.json")["ways"]
    assert set(found) == {"uniform", "slot_3"}
    assert found["slot_3"]["images"] == 16
    assert len(found["slot_3"]["slots"]) == len(SLOTS)
    with np.load("results/pictures_of/small/block_3.npz", allow_pickle=False) as pictures:
        assert {name: pictures[name].shape for name in pictures} == dict.fromkeys(
            ("before", "uniform", "slot_3"), (3, 1, 8, 8)
        )


def test_the_pilot_tries_rates_of_an_arm_with_a_density() -> None:
    run(build_extractor)
    run(measure_densities)
    run(pilot_arm, "--arm", "even", "--block", 5)
    tries = figures("results/pilot/even/block_5.json")["tries"]
    assert {label: one["lr"] for label, one in tries.items()} == {"low": 5e-4, "high": OPTIMIZER["lr"]}
    assert tries["low"]["costs"]["images"] == tries["high"]["costs"]["images"] == 16
    assert tries["low"]["endpoints"] != tries["high"]["endpoints"]


@pytest.mark.parametrize("program", [pilot_arm, train_arm])
def test_densities_of_another_schedule_are_refused_in_one_line(program: Any) -> None:
    run(build_extractor)
    run(measure_densities)
    found = figures(DENSITIES)
    found["slots"][-1][1] = found["cells"][-1][1] = 59
    write_json(Path(DENSITIES), found)
    result = CliRunner().invoke(program.main, ["--arm", "even", "--block", "3"])
    assert result.exit_code == 1
    assert "the slots end at t = 59, the model at t = 49" in result.output
    assert result.output.count("\n") == 1
