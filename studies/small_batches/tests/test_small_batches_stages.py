"""The stages of the study on tiny networks: densities of a scout, trainings by them, gradients, retraining, a pilot."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from specs import recipe_of
from stage_project import write_params

from stages import build_extractor, train_base
from studies.small_batches.densities import Densities
from studies.small_batches.stages import measure_densities, measure_gradients, pilot_arm, retrain, train_arm
from unequal.data.prepared import PreparedData
from unequal.files import read_json, write_json
from unequal.models.folder import load_record

WAYS = ["uniform", "near_noise", "slot_2"]
PILOT = {
    "arms": {"fresh": ["small"], "continued": []},
    "tries": {"half": {"lr": 5e-4}, "own": {}},
    "seeds": [7, 8],
    "share": 0.5,
    "chosen": {"others": "half"},
}


def run(program: Any, *options: Any) -> None:
    result = CliRunner().invoke(program.main, list(map(str, options)))
    assert result.exit_code == 0, result.output


@pytest.mark.slow
def test_an_arm_goes_from_measured_densities_to_gradients_and_retraining(
    project: Path, prepared: PreparedData, network_settings: Callable[..., Any], training_settings: Callable[..., Any]
) -> None:
    shutil.copytree(prepared.path, "artifacts/data")
    write_json(Path("artifacts/slots.json"), {"timesteps": 50, "loss": "total", "slots": [[0, 9], [10, 49]]})
    recipe = recipe_of(images=32, keep_state=True, snapshots=(16,)).model_dump(mode="json")
    gradients = {"parts": 2, "folds": 3, "single_images": 3, "mean_images": 3, "uniform_share": 0.1}
    write_params(
        seed=0,
        schedule={"name": "linear", "timesteps": 50},
        network=network_settings().model_dump(mode="json"),
        training=training_settings().model_dump(mode="json"),
        recipes={"base": recipe, "small": recipe},
        arms={"small": {"batch_size": 2, "density": "slots", "serves": "draws"}},
        gradients=gradients | {"arms": ["small"], "batch_size": 2},
        retraining={"arms": ["small"], "ways": WAYS, "images": 8, "warmup_images": 0, "lr_share": 0.5, "power": 2.0},
        pilot=PILOT,
        profile={"images": 2, "batch_size": 16, "floor": "none"},
        extractor={"kind": "classifier", "weights": None, "features": 4, "images": 1280, "batch_size": 8, "lr": 1e-2},
        sampling={"steps": 3, "spacing": "uniform", "eta": 0.0, "clip": True, "batch_size": 16},
        evaluation={"samples": 20, "seeds": [0], "kid_subset": 6, "allow_singular": False},
    )
    run(train_base)
    run(measure_densities)
    densities = Densities.read(Path("results/densities.json"), 50)
    assert [tuple(one) for one in densities.cells] == [(0, 4), (5, 9), (10, 29), (30, 49)]
    assert min(densities.second_moments) > 0
    run(train_arm, "--arm", "small", "--block", 3)
    # 32 images in batches of 2.
    assert load_record(Path("artifacts/models/small/block_3")).steps == 16
    assert read_json(Path("results/trainings/small/block_3.json"))["images"] == 32
    run(measure_gradients, "--arm", "small", "--block", 3)
    points = read_json(Path("results/gradients/small/block_3.json"))["points"]
    assert [one["images"] for one in points] == [16, 32]
    assert all(len(one[metric]["cosines"]["value"]) == 2 for one in points for metric in ("raw", "adam"))
    run(retrain, "--arm", "small", "--block", 3)
    ways = read_json(Path("results/retrained/small/block_3.json"))["ways"]
    assert [(way, one["images"], len(one["slots"])) for way, one in ways.items()] == [(way, 8, 2) for way in WAYS]
    run(build_extractor)
    run(pilot_arm, "--arm", "small", "--block", 7)
    tried = read_json(Path("results/pilot/small/block_7.json"))["tries"]
    assert [(name, one["lr"], one["costs"]["images"]) for name, one in tried.items()] == [
        ("half", 5e-4, 16),
        ("own", 1e-3, 16),
    ]
