"""The features that FID compares: a classifier by the seed, DINOv2 from its folder, or a line of what is amiss."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from dinov2_folders import FEATURES, write_dinov2
from refusals import Bad, check_refused, table
from safetensors.torch import load_file, save_file
from stage_project import write_params

from stages import build_extractor, evaluate_reference
from unequal.runtime.files import content_hash, read_json, write_json

SETTINGS = {"kind": "classifier", "weights": None, "features": 4, "images": 1280, "batch_size": 32, "lr": 1.0e-2}
DINOV2 = SETTINGS | {"kind": "dinov2", "weights": "network", "features": FEATURES}
NETWORK = Path("network")
CONFIG, TENSORS = NETWORK / "config.json", NETWORK / "model.safetensors"
MADE = ["artifacts/extractor/extractor.json", "results/metrics/extractor.json"]

pytestmark = pytest.mark.usefixtures("project")


@pytest.fixture(autouse=True)
def data(project, prepared):
    shutil.copytree(prepared.path, "artifacts/data")


def built(seed: int) -> str:
    write_params(seed=seed, extractor=SETTINGS)
    result = CliRunner().invoke(build_extractor.main, [])
    assert result.exit_code == 0, result.output
    return content_hash(Path("artifacts/extractor/classifier.safetensors"))


def test_the_classifier_is_decided_by_the_seed():
    assert built(0) == built(0) != built(1)


def test_images_without_labels_have_features_of_rotations():
    facts = read_json(Path("artifacts/data/facts.json"))
    write_json(Path("artifacts/data/facts.json"), facts | {"labels": None, "classes": None})
    write_params(seed=0, extractor=SETTINGS)
    check_refused(build_extractor, said="extractor.kind: 'classifier' needs labelled data; use rotations", outputs=MADE)
    images = np.load("artifacts/data/images.npy")
    images[:, :, :, :4] = images[:, :, 4:] = 0  # a corner each, so that no rotation of one image looks like another's
    np.save("artifacts/data/images.npy", images)
    evaluation = {"samples": 40, "seeds": [0], "kid_subset": 6, "allow_singular": True}
    write_params(seed=0, extractor=SETTINGS | {"kind": "rotations"}, evaluation=evaluation)
    for stage in (build_extractor, evaluate_reference):
        result = CliRunner().invoke(stage.main, [])
        assert (result.exit_code, result.output) == (0, "")
    assert 0 <= read_json(Path(MADE[1]))["holdout_accuracy"] <= 1
    assert read_json(Path("results/fid/reference.json"))["extractor"].startswith("rotations-")


def test_features_that_tell_nothing_are_refused():
    facts = read_json(Path("artifacts/data/facts.json"))
    labels = np.load("artifacts/data/labels.npy")
    write_params(seed=0, extractor=SETTINGS)
    for change, classes in ((np.zeros_like(labels), ["a"]), (np.random.default_rng(0).permutation(labels), ["a", "b"])):
        np.save("artifacts/data/labels.npy", change)
        write_json(Path("artifacts/data/facts.json"), facts | {"labels": len(classes), "classes": classes})
        check_refused(
            build_extractor, said="its features distinguish nothing; raise extractor.images, or use", outputs=MADE
        )


def test_dinov2_is_taken_along_with_what_is_read_of_its_folder_alone():
    write_dinov2(NETWORK)
    for name in ("pytorch_model.bin", "adapter_config.json"):
        (NETWORK / name).write_text("{}")
    evaluation = {"samples": 40, "seeds": [0], "kid_subset": 6, "allow_singular": True}
    write_params(seed=0, extractor=DINOV2, evaluation=evaluation)
    for stage in (build_extractor, evaluate_reference):
        result = CliRunner().invoke(stage.main, [])
        assert (result.exit_code, result.output) == (0, "")
    folder = Path("artifacts/extractor/dinov2")
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == {
        file.name: file.read_bytes() for file in (CONFIG, TENSORS)
    }
    facts = {"kind": "dinov2", "features": FEATURES, "weights": "dinov2", "holdout_accuracy": None}
    assert read_json(Path(MADE[1])) == facts | {"weights_sha256": content_hash(folder)}
    found = read_json(Path("results/fid/reference.json"))
    assert found["extractor"] == f"dinov2-{content_hash(folder)[:12]}"
    assert found["real_against_real"]["fid"] < found["noise_against_real"]["fid"]


def config(**changes: Any) -> Callable[[], None]:
    return lambda: write_json(CONFIG, read_json(CONFIG) | changes)


def other(**changes: Any) -> Callable[[], None]:
    return lambda: (shutil.rmtree(NETWORK), write_dinov2(NETWORK, **changes))[0]


def pickled() -> None:
    torch.save(load_file(TENSORS), NETWORK / "pytorch_model.bin")
    TENSORS.unlink()


def not_finite() -> None:
    weights = load_file(TENSORS)
    weights["layernorm.weight"][3] = float("nan")
    save_file(weights, TENSORS, {"format": "pt"})


def set_to(**changes: Any) -> Callable[[], None]:
    return lambda: write_params(seed=0, extractor=DINOV2 | changes)


BAD: dict[str, Bad] = {
    "no folder": Bad(lambda: shutil.rmtree(NETWORK), "extractor.weights: network: missing; allowed: a file or folder"),
    "weights that are unpickled": Bad(pickled, "extractor.weights: network: has no model.safetensors; allowed: a fold"),
    "weights that are no numbers": Bad(not_finite, "extractor.weights: network: weight 'layernorm.weight' holds NaN"),
    "a config of no JSON": Bad(lambda: CONFIG.write_text("{"), "network: config.json names no model_type; allowed:"),
    "patches that do not fit": Bad(other(patch_size=15, image_size=30), "network: patch_size: 15; allowed: a number"),
    "other features": Bad(set_to(features=1024), "extractor.features: 1024; network has 32, its hidden_size"),
}


@table(BAD)
def test_a_folder_with_no_such_dinov2_is_refused(bad):
    write_dinov2(NETWORK)
    set_to()()
    bad.spoil()
    check_refused(build_extractor, said=bad.said, outputs=MADE)
