"""The stages of the consistency study on tiny networks: from fresh weights to tables."""

import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click import Command
from click.testing import CliRunner
from specs import recipe_of
from stage_project import write_params

from studies.consistency.comparison import untrained
from studies.consistency.stages import measure_consistency, report_consistency, train_replica
from unequal.data.prepared import PreparedData
from unequal.models.folder import load_model
from unequal.runtime.files import read_json, read_npz

WIDTHS, SEEDS = ["8-16", "12-16", "dit-16-1"], [0, 3]


def run(stage: Command, *options: object, status: int = 0) -> str:
    result = CliRunner().invoke(stage, [str(option) for option in options])
    assert result.exit_code == status, result.output
    return result.output


@pytest.mark.slow
@pytest.mark.thorough
def test_replicas_go_from_their_seeds_to_a_report(
    project: Path, prepared: PreparedData, network_settings: Callable[..., Any], training_settings: Callable[..., Any]
) -> None:
    shutil.copytree(prepared.path, "artifacts/data")
    comparison = {"noises": 5, "images": 8, "timesteps": [0, 20, 49], "optimum": True}
    params = {
        "seed": 0,
        "schedule": {"name": "linear", "timesteps": 50},
        "network": network_settings().model_dump(mode="json"),
        "training": training_settings(batch_size=8).model_dump(mode="json"),
        "recipes": {"base": recipe_of(images=80).model_dump(mode="json")},
        "sampling": {"steps": 5, "spacing": "uniform", "eta": 0.0, "clip": True, "batch_size": 4},
        "consistency": {"widths": WIDTHS, "seeds": SEEDS, "comparison": comparison},
    }
    write_params(**params)
    for width, seed in product(WIDTHS, SEEDS):
        run(train_replica.main, "--width", width, "--seed", seed)
    net, record = load_model(Path("artifacts/models/12-16/seed_3"))
    assert (record.name, record.seed, record.parent, record.images_seen) == ("12-16/seed_3", 3, None, 80)
    start = untrained(network_settings(), "12-16", 3, record.spec)
    changes = [float((a - b).abs().max().detach()) for a, b in zip(net.parameters(), start.parameters(), strict=True)]
    assert 0 < max(changes) < 0.1  # Adam moves no weight by much more than the learning rate a step

    run(measure_consistency.main)
    table = read_json(Path("artifacts/consistency/table.json"))
    counts = {"itself": 6, "seeds": 3, "widths": 4, "architectures": 8, "optimum": 6, "untrained": 15}
    relations = [row["relation"] for row in table["pictures"]]
    assert {name: relations.count(name) for name in counts} == counts
    assert len(table["predictions"]) == 3 * sum(counts.values())
    same = {name: [row["mse_same"] for row in table["pictures"] if row["relation"] == name] for name in counts}
    assert max(same["itself"]) == 0 < min(same["seeds"])  # untrained transformers all answer 0
    images = read_npz(Path("artifacts/consistency/pictures.npz"), ["12-16/seed_3", "optimum", "nearest_training"])
    assert all(one.shape == (5, 1, 8, 8) and one.dtype == np.uint8 for one in images.values())
    known = {image.tobytes() for image in prepared.train}
    assert all(image.tobytes() in known for image in images["nearest_training"])

    run(report_consistency.main)
    page, document = Path("results/report.html").read_text(), read_json(Path("results/findings.json"))
    assert {
        "seeds_mse",
        "architectures_mse",
        "models_change_percent",
        "agreement_trained",
        "prediction_mse_ratio_49",
    } <= document.keys()
    assert page.count("data:image/png") == len(list(Path("results/pictures").iterdir())) == 2

    write_params(**params | {"consistency": params["consistency"] | {"comparison": comparison | {"images": 13}}})
    complaint = "consistency.comparison.images: 13 exceeds the 12 held-out images\n"
    assert run(measure_consistency.main, status=1).endswith(complaint)
