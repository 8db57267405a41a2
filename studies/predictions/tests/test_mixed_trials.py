"""Trials of three heads, from training to scores: one training for all selections, one line for a wrong recipe."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from diffusers.models.unets.unet_2d import UNet2DModel
from stage_project import write_params

from studies.predictions.stages.evaluate_selections import main as evaluate_selections
from studies.predictions.stages.profile_heads import main as profile_heads
from studies.predictions.stages.train_mixed_trial import main as train_mixed_trial
from unequal.data.pixels import tensor_of
from unequal.data.prepared import PreparedData
from unequal.evaluation.classifier import Classifier, save_classifier
from unequal.evaluation.fidelity import CLASSIFIER, FACTS
from unequal.files import content_hash, read_npz, write_json
from unequal.measures.profiling import Draws, profile
from unequal.models.denoiser import load_denoiser
from unequal.models.folder import ModelRecord, load_heads, load_model, save_model
from unequal.settings.network import UNet2D
from unequal.settings.training import Training

CPU = torch.device("cpu")
RECIPE: dict[str, Any] = {
    "images": 8,
    "prediction": "mixed",
    "mixing": {"train": "balanced", "half_life_images": 8, "bins": 5, "select": "blend"},
    "sampler": {"kind": "uniform"},
    "loss_weight": {"kind": "none"},
    "optimizer": {"lr": 1e-3, "betas": [0.9, 0.999], "weight_decay": 0.0, "warmup_images": 0, "decay": "constant"},
}
SINGLE = {name: value for name, value in RECIPE.items() if name != "mixing"} | {"prediction": "v_prediction"}
SELECTIONS = ["profile", "blend", "sample"]
TRIAL = ["--batch", "4x1", "--seed", "3"]
MODEL = Path("artifacts/models/balanced/batch_4x1/seed_3")


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
        training=training_settings(batch_size=4).model_dump(mode="json"),
        profile={"images": 3, "batch_size": 64, "floor": "none"},
        recipes={"balanced": RECIPE, "single": SINGLE},
        grid={"reference_batch": 4, "lr_scaling": "sqrt"},
        predictions={"selections": SELECTIONS},
        sampling={"steps": 3, "spacing": "uniform", "eta": 0.0, "clip": True, "batch_size": 16},
        evaluation={"samples": 16, "seeds": [0], "kid_subset": 8, "allow_singular": False},
    )


def run(program: Any, recipe: str) -> Result:
    return CliRunner().invoke(program, ["--recipe", recipe, *TRIAL])


def extractor() -> None:
    folder = Path("artifacts/extractor")
    folder.mkdir()
    save_classifier(folder / CLASSIFIER, Classifier(1, 8, 4, 2))
    digest = content_hash(folder / CLASSIFIER)
    write_json(folder / FACTS, {"kind": "classifier", "features": 4, "weights": CLASSIFIER, "weights_sha256": digest})


def test_a_mixed_trial_leaves_a_model_its_heads_and_their_statistics() -> None:
    result = run(train_mixed_trial, "balanced")
    assert result.exit_code == 0, result.output
    _, record = load_model(MODEL)
    assert (record.spec.prediction, record.seed, record.images_seen) == ("mixed", 3, 8)
    heads = load_heads(MODEL)
    assert heads is not None
    assert heads.products.shape == (50, 3, 3)
    tables = read_npz(Path("artifacts/statistics/balanced/batch_4x1/seed_3.npz"), ["images", "wins", "bins"])
    assert tables["images"].sum() == tables["wins"].sum() == 8
    assert tables["wins"].shape[1:] == (tables["bins"].max() + 1, 3)


def test_a_single_head_makes_no_mixed_model() -> None:
    result = run(train_mixed_trial, "single")
    assert result.output == (
        "train_mixed_trial: a mixed model has three heads, and its recipe one, 'v_prediction'; allowed: mixed\n"
    )
    assert result.exit_code == 1
    assert not Path("artifacts/models").exists()


def test_one_training_is_scored_with_every_selection() -> None:
    run(train_mixed_trial, "balanced")
    extractor()
    before = content_hash(MODEL)
    result = run(evaluate_selections, "balanced")
    assert result.exit_code == 0, result.output
    found = json.loads(Path("results/selections/balanced_batch_4x1_seed_3.json").read_text())
    assert list(found["selections"]) == SELECTIONS
    scores = [found["selections"][select]["fid_mean"] for select in SELECTIONS]
    assert len(set(scores)) == 3
    assert content_hash(MODEL) == before


def test_selections_of_a_single_head_are_refused(
    tiny_net: Callable[..., UNet2DModel], make_record: Callable[..., ModelRecord]
) -> None:
    net = tiny_net()
    save_model(Path("artifacts/models/single/batch_4x1/seed_3"), net, make_record(net, prediction="v_prediction"))
    extractor()
    result = run(evaluate_selections, "single")
    assert result.output == (
        "evaluate_selections: artifacts/models/single/batch_4x1/seed_3: prediction 'v_prediction' has one head; "
        "'profile' selects among three\n"
    )


def test_heads_are_profiled_on_the_draws_of_all_profiles(prepared: PreparedData) -> None:
    """A head's error is the loss of the model in which it speaks alone, told in x0-space."""
    run(train_mixed_trial, "balanced")
    result = run(profile_heads, "balanced")
    assert result.exit_code == 0, result.output
    tables = read_npz(Path("artifacts/heads/balanced/batch_4x1/seed_3.npz"), ["products", "settled"])
    products, heads = tables["products"], load_heads(MODEL)
    assert heads is not None
    np.testing.assert_array_equal(tables["settled"], heads.products)
    assert products.shape == (50, 3, 3, 3)
    denoiser, _ = load_denoiser(MODEL, CPU, "epsilon")
    losses = profile(denoiser, Draws.of(tensor_of(prepared.holdout), 50, 3, 0, CPU), 64).epsilon
    snr = denoiser.schedule.snr.numpy()[:, None]
    np.testing.assert_allclose(products[:, :, 2, 2], losses / snr, rtol=1e-3)


def test_a_single_head_has_a_profile_too(
    prepared: PreparedData, tiny_net: Callable[..., UNet2DModel], make_record: Callable[..., ModelRecord]
) -> None:
    net, folder = tiny_net(), Path("artifacts/models/single/batch_4x1/seed_3")
    save_model(folder, net, make_record(net, prediction="v_prediction"))
    assert run(profile_heads, "single").exit_code == 0
    products = read_npz(Path("artifacts/heads/single/batch_4x1/seed_3.npz"), ["products"])["products"]
    denoiser, _ = load_denoiser(folder, CPU)
    losses = profile(denoiser, Draws.of(tensor_of(prepared.holdout), 50, 3, 0, CPU), 64).epsilon
    np.testing.assert_allclose(products[..., 0, 0], losses / denoiser.schedule.snr.numpy()[:, None], rtol=1e-3)
