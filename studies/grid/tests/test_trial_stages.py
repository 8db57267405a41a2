"""A trial of a grid: trained at its own batch and seed, kept at snapshots, scored at each."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from stage_project import write_params

from stages import build_extractor
from studies.grid.stages import evaluate_trial, train_trial
from unequal.data.prepared import PreparedData
from unequal.models.folder import load_model, load_record
from unequal.settings.network import UNet2D
from unequal.settings.training import Training

pytestmark = pytest.mark.slow

RECIPE: dict[str, Any] = {
    "images": 40,
    "snapshots": [10, 24],
    "prediction": "epsilon",
    "sampler": {"density": "curriculum", "target": "noise_rate", "ramp_images": 20, "uniform_share": 0.1},
    "loss_weight": {"kind": "none"},
    "optimizer": {"lr": 1.0e-3, "betas": [0.9, 0.999], "weight_decay": 0.0, "warmup_images": 0, "decay": "constant"},
}
FOLDER = Path("artifacts/models/curriculum/batch_2x2/seed_3")


@pytest.fixture(autouse=True)
def study(
    project: Path,
    prepared: PreparedData,
    network_settings: Callable[..., UNet2D],
    training_settings: Callable[..., Training],
) -> None:
    shutil.copytree(prepared.path, "artifacts/data")
    write_params(
        seed=0,
        schedule={"name": "linear", "timesteps": 50},
        network=network_settings().model_dump(mode="json"),
        training=training_settings(batch_size=8).model_dump(mode="json"),
        recipes={"curriculum": RECIPE},
        grid={"reference_batch": 8, "lr_scaling": "linear"},
        extractor={"kind": "classifier", "weights": None, "features": 4, "images": 64, "batch_size": 8, "lr": 1.0e-3},
        sampling={"steps": 3, "spacing": "uniform", "eta": 0.0, "clip": True, "batch_size": 16},
        evaluation={"samples": 12, "seeds": [0, 1], "kid_subset": 6, "allow_singular": False},
    )


def run(program: Any, *options: str) -> None:
    result = CliRunner().invoke(program.main, options)
    assert result.exit_code == 0, result.output


def trial(seed: int = 3) -> tuple[str, ...]:
    return ("--recipe", "curriculum", "--batch", "2x2", "--seed", str(seed))


def test_a_trial_is_trained_and_scored_at_every_snapshot() -> None:
    run(train_trial, *trial())
    record = load_record(FOLDER)
    assert (record.images_seen, record.steps, record.seed) == (40, 10, 3)
    # A batch of 2 × 2 images: 10 images are passed at step 3, 24 at step 6.
    snapshots = [load_record(FOLDER / "snapshots" / name) for name in ("12", "24")]
    assert [(one.images_seen, one.steps) for one in snapshots] == [(12, 3), (24, 6)]
    assert snapshots[0].training_flops * 40 == record.training_flops * 12
    curve = Path("artifacts/training/curriculum_batch_2x2_seed_3.jsonl")
    lines = [json.loads(line) for line in curve.read_text().splitlines()]
    assert lines[-1]["lr"] == pytest.approx(1e-3 * 4 / 8)
    run(build_extractor)
    run(evaluate_trial, *trial())
    facts = json.loads(Path("results/trials/curriculum_batch_2x2_seed_3.json").read_text())
    assert [point["images_seen"] for point in facts["points"]] == [12, 24, 40]
    assert facts["fid"] == facts["points"][-1]["fid_mean"]
    assert len({point["fid_mean"] for point in facts["points"]}) == 3


def test_trials_differ_by_their_seed_alone() -> None:
    weights = []
    for seed in (3, 4, 3):
        run(train_trial, *trial(seed))
        net, _ = load_model(FOLDER.with_name(f"seed_{seed}"))
        weights.append(net.state_dict()["conv_in.weight"])
    assert not torch.equal(weights[0], weights[1])
    assert torch.equal(weights[0], weights[2])
