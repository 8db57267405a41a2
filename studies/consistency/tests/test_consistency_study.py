"""The stages of the consistency study on tiny networks: from fresh weights to tables."""

import copy
import csv
import json
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
from click import Command
from click.testing import CliRunner, Result
from stage_project import write_params

from studies.consistency.comparison import untrained
from studies.consistency.stages import measure_consistency, report_consistency, train_replica
from unequal.data.prepared import PreparedData
from unequal.files import read_json, read_npz
from unequal.models.folder import load_model
from unequal.settings.network import UNet2D
from unequal.settings.training import Training

pytestmark = pytest.mark.slow

WIDTHS, SEEDS, T = ["8-16", "12-16"], [0, 3], 50
RECIPE: dict[str, Any] = {
    "images": 200,
    "prediction": "epsilon",
    "sampler": {"density": "uniform"},
    "loss_weight": {"kind": "none"},
    "optimizer": {"lr": 2e-3, "betas": [0.9, 0.999], "weight_decay": 0.0, "warmup_images": 40, "decay": "constant"},
}


@pytest.fixture(scope="module")
def params(network_settings: Callable[..., UNet2D], training_settings: Callable[..., Training]) -> dict[str, Any]:
    comparison = {"noises": 5, "images": 8, "timesteps": [0, 20, 49], "optimum": True}
    return {
        "seed": 0,
        "schedule": {"name": "linear", "timesteps": T},
        "network": network_settings().model_dump(mode="json"),
        "training": training_settings(batch_size=8).model_dump(mode="json"),
        "recipes": {"base": RECIPE},
        "sampling": {"steps": 5, "spacing": "uniform", "eta": 0.0, "clip": True, "batch_size": 4},
        "consistency": {"widths": WIDTHS, "seeds": SEEDS, "comparison": comparison},
    }


@pytest.fixture(scope="module")
def replicas(params: dict[str, Any], prepared: PreparedData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which all replicas have been trained."""
    folder = tmp_path_factory.mktemp("replicas")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("unequal.pipeline.stage.Tracker", MagicMock())
        shutil.copytree(prepared.path, "artifacts/data")
        write_params(**params)
        for width, seed in product(WIDTHS, SEEDS):
            assert run(train_replica.main, "--width", width, "--seed", seed).exit_code == 0
    return folder


@pytest.fixture(autouse=True)
def study(project: Path, replicas: Path, params: dict[str, Any]) -> None:
    shutil.copytree(replicas, project, dirs_exist_ok=True)


def run(stage: Command, *options: object) -> Result:
    result = CliRunner().invoke(stage, [str(option) for option in options])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def write_comparison(params: dict[str, Any], **changes: Any) -> None:
    changed = copy.deepcopy(params)
    changed["consistency"]["comparison"] |= changes
    write_params(**changed)


def rows(path: str) -> list[dict[str, str]]:
    return list(csv.DictReader(Path(path).read_text().splitlines()))


def test_a_replica_is_trained_from_its_seed_and_width(network_settings: Callable[..., UNet2D]) -> None:
    net, record = load_model(Path("artifacts/models/12-16/seed_3"))
    assert (record.name, record.seed, record.parent, record.images_seen) == ("12-16/seed_3", 3, None, 200)
    assert tuple(read_json(Path("artifacts/models/12-16/seed_3/config.json"))["block_out_channels"]) == (12, 16)
    start = untrained(network_settings(), "12-16", 3, record.spec)
    changes = [float((a - b).abs().max().detach()) for a, b in zip(net.parameters(), start.parameters(), strict=True)]
    # Adam moves no weight by much more than the learning rate a step, of which there were 25.
    assert 0 < max(changes) < 0.1
    assert Path("artifacts/training/12-16_seed_3.jsonl").exists()
    assert Path("results/training/12-16_seed_3.csv").exists()


def test_all_replicas_are_compared(prepared: PreparedData) -> None:
    assert run(measure_consistency.main).exit_code == 0
    table = read_json(Path("artifacts/consistency/table.json"))
    counts = {"itself": 4, "seeds": 2, "widths": 4, "optimum": 4, "untrained": 6}
    found = [row["relation"] for row in table["pictures"]]
    assert {name: found.count(name) for name in counts} == counts
    assert len(table["predictions"]) == 3 * sum(counts.values())
    assert all(0 <= row["mse_same"] <= 4 for row in table["pictures"])
    assert {row["relation"]: int(row["pairs"]) for row in rows("results/consistency_predictions.csv")} == counts
    summary = json.loads(Path("results/consistency.json").read_text())
    assert summary["pictures"]["seeds"]["mse_same"] > 0 == summary["pictures"]["itself"]["mse_same"]
    assert set(summary["nearest_training"]) > {"8-16/seed_0", "optimum", "held_out", "two_training_images"}
    names = [f"{width}/seed_{seed}" for width in WIDTHS for seed in SEEDS]
    images = read_npz(Path("artifacts/consistency/pictures.npz"), [*names, "optimum", "nearest_training"])
    assert all(one.shape == (5, 1, 8, 8) and one.dtype == np.uint8 for one in images.values())
    known = {image.tobytes() for image in prepared.train}
    assert all(image.tobytes() in known for image in images["nearest_training"])


def test_more_held_out_images_than_there_are_are_refused(params: dict[str, Any]) -> None:
    write_comparison(params, images=13)
    result = run(measure_consistency.main)
    assert result.exit_code == 1
    assert result.output.endswith("consistency.comparison.images: 13 exceeds the 12 held-out images\n")


def test_the_report_has_its_pictures_and_findings() -> None:
    for stage, options in (
        (measure_consistency.main, ()),
        (report_consistency.main, ()),
    ):
        result = run(stage, *options)
        assert result.exit_code == 0, result.output
    page, document = Path("results/report.html").read_text(), read_json(Path("results/findings.json"))
    assert {"seeds_mse", "models_change_percent", "agreement_trained", "prediction_mse_ratio_49"} <= document.keys()
    assert page.count("data:image/png") == len(list(Path("results/pictures").iterdir())) == 2
    assert "8-16, seed 3" in page
