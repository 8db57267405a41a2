"""Heads of one network in other combinations: by weights that are known, and as programs on a tiny project."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from stage_project import write_params

from studies.predictions.combining import BY_ERRORS, BY_SAMPLES, HALVES, by_samples, swapped
from studies.predictions.stages import measure_heads, train_mixed, train_single
from unequal.data.prepared import PreparedData, tensor_of
from unequal.evaluation.classifier import Classifier, save_classifier
from unequal.evaluation.fidelity import CLASSIFIER, FACTS
from unequal.evaluation.sets import Reference
from unequal.files import content_hash, read_npz, write_json, write_npz
from unequal.measures.profiling import Draws, profile
from unequal.models.denoiser import load_denoiser
from unequal.models.folder import load_heads, load_model
from unequal.randomness import torch_seed
from unequal.settings.network import UNet2D
from unequal.settings.training import Training
from unequal.timesteps.partition import Partition

CPU = torch.device("cpu")
RECIPE: dict[str, Any] = {
    "images": 40,
    "prediction": "mixed",
    "mixing": {"train": "balanced", "half_life_images": 8, "bins": 5, "select": "profile"},
    "sampler": {"density": "uniform"},
    "loss_weight": {"kind": "none"},
    "optimizer": {"lr": 1e-3, "betas": [0.9, 0.999], "weight_decay": 0.0, "warmup_images": 0, "decay": "constant"},
}
SINGLE = {name: value for name, value in RECIPE.items() if name != "mixing"} | {"prediction": "v_prediction"}
MODEL = Path("artifacts/models/three/block_3")


def test_one_head_speaks_where_it_is_told_to() -> None:
    least = np.tile(np.eye(3)[0], (6, 1))
    ranges = Partition.of_lengths([2, 4])
    assert swapped(least, ranges[1], 2).argmax(1).tolist() == [0, 0, 2, 2, 2, 2]
    assert least.argmax(1).tolist() == [0] * 6
    chosen = by_samples(ranges, [[3.0, 1.0, 2.0], [0.5, 1.0, 0.4]])
    assert chosen.argmax(1).tolist() == [1, 1, 2, 2, 2, 2]
    assert chosen.sum(1).tolist() == [1.0] * 6


def test_what_is_chosen_by_and_what_is_told_of_share_no_image(prepared: PreparedData) -> None:
    choice, report = (Reference.of(prepared, half) for half in HALVES)
    assert len(choice.images) + len(report.images) == len(prepared.holdout)
    together = {one.tobytes() for one in choice.images} | {one.tobytes() for one in report.images}
    assert together == {one.tobytes() for one in prepared.holdout}
    assert not {one.tobytes() for one in choice.images} & {one.tobytes() for one in report.images}
    assert choice.name != report.name


@pytest.fixture
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
        training=training_settings(batch_size=4).model_dump(mode="json"),
        profile={"images": 3, "batch_size": 64, "floor": "none"},
        recipes={"three": RECIPE, "one": SINGLE},
        pilot={"arms": ["one"], "tries": {"low": {"lr": 1e-3}, "high": {}}, "seeds": [5, 6], "share": 0.5},
        predictions={
            "single": ["one"],
            "mixed": ["three"],
            "tried": ["three"],
            "batch_sizes": {"three": 2},
            "ranges": 2,
            "samples": 16,
        },
        sampling={"steps": 3, "spacing": "uniform", "eta": 0.0, "clip": True, "batch_size": 16},
        evaluation={"samples": 16, "seeds": [0], "kid_subset": 4, "allow_singular": True, "neighbourhood": 2},
    )
    folder = Path("artifacts/extractor")
    folder.mkdir()
    save_classifier(folder / CLASSIFIER, Classifier(1, 8, 4, 2))
    digest = content_hash(folder / CLASSIFIER)
    write_json(folder / FACTS, {"kind": "classifier", "features": 4, "weights": CLASSIFIER, "weights_sha256": digest})


def run(program: Any, arm: str) -> Result:
    return CliRunner().invoke(program.main, ["--arm", arm, "--block", "3"])


@pytest.mark.slow
def test_three_heads_are_trained_kept_and_combined(study: None, prepared: PreparedData) -> None:
    result = run(train_mixed, "three")
    assert result.exit_code == 0, result.output
    _, record = load_model(MODEL)
    assert (record.spec.prediction, record.images_seen, record.steps) == ("mixed", 40, 20)
    result = run(measure_heads, "three")
    assert result.exit_code == 0, result.output
    found = json.loads(Path("results/heads/three/block_3.json").read_text())
    assert list(found["combinations"]) == [*BY_ERRORS, BY_SAMPLES]
    assert len({one["fid"] for one in found["combinations"].values()}) > 3
    assert np.shape(found["swaps"]["fid"]) == (2, 3)
    wins = read_npz(Path("artifacts/statistics/three/block_3.npz"), ["wins"])["wins"].sum((0, 1))
    assert found["wins"]["shares"] == pytest.approx(wins / 40)
    # One head alone is the model in which it alone speaks: its loss is that of the model's own profile.
    denoiser, _ = load_denoiser(MODEL, CPU, "epsilon")
    draws = Draws.of(tensor_of(prepared.holdout_report), 50, 3, torch_seed(0, 3), CPU)
    losses = profile(denoiser, draws, 64).epsilon
    assert found["combinations"]["epsilon"]["loss_over_timesteps"] == pytest.approx(losses.mean(), rel=1e-3)
    heads = load_heads(MODEL)
    assert heads is not None
    errors = np.diagonal(heads.products.numpy(), axis1=1, axis2=2)
    assert heads.weights.numpy().argmax(1).tolist() == errors.argmin(1).tolist()


@pytest.mark.slow
def test_one_head_leaves_a_model_and_none_to_combine(study: None) -> None:
    assert run(train_single, "one").exit_code == 0
    assert load_model(Path("artifacts/models/one/block_3"))[1].steps == 10
    write_npz(Path("artifacts/statistics/one/block_3.npz"), wins=np.ones((2, 2, 3)), bins=np.zeros(50, int))
    result = run(measure_heads, "one")
    assert result.output == (
        "measure_heads: artifacts/models/one/block_3: has one head, of which there is nothing to combine\n"
    )
    assert result.exit_code == 1
