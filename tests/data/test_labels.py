"""Labels that are asked for and not there are missed by the gate, not by a stage that runs later."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from one_line import refusal
from params_files import edited
from PIL import Image

from unequal.data.labels import check_images, check_labels
from unequal.errors import UserErrors
from unequal.settings.params import Params

DEFAULT = Path(__file__).parents[2] / "presets/digits.yaml"
IMAGES = np.zeros((4, 8, 8), np.uint8)
INCEPTION = {"kind": "inception", "weights": None, "features": 2048, "images": 8, "batch_size": 8, "lr": 1.0e-3}
CLASSES = {"network.condition": {"kind": "labels", "classes": 3}, "profile.floor": "none"}


@pytest.fixture
def places(tmp_path):
    for name in ("flat/0", "uneven/0", "uneven/a/0", "labelled/a/0", "labelled/b/0", "labelled/b/1"):
        file = tmp_path / f"{name}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(IMAGES[0]).save(file)
    np.save(tmp_path / "bare.npy", IMAGES)
    np.savez(tmp_path / "bare.npz", images=IMAGES)
    np.savez(tmp_path / "labelled.npz", images=IMAGES, labels=np.array([0, 1, 1, 0]))
    return tmp_path


def params(place: Path, **edits: Any) -> Params:
    data = {"path": str(place), "source": "array" if place.suffix else "folder", "image_size": 8, "channels": 1}
    changes = {"data": data | {"fit": "exact", "holdout": 0.5}, "evaluation.allow_singular": True} | edits
    return Params.read(edited(DEFAULT, changes, place.parent))


@pytest.mark.parametrize("name", ["flat", "uneven", "bare.npy", "bare.npz"])
def test_a_classifier_needs_labels(places, name):
    line = refusal(check_labels, params(places / name))
    assert line.startswith("extractor.kind: 'classifier' needs labelled data, and")
    assert f"data.path: {places / name} has no labels" in line
    check_labels(params(places / name, extractor=INCEPTION))


def test_too_few_images_are_refused_with_all_that_they_are_too_few_for(tmp_path):
    np.save(tmp_path / "forty.npy", np.zeros((40, 8, 8), np.uint8))
    few = params(tmp_path / "forty.npy", **{"evaluation.allow_singular": False})  # 20 are trained on
    with pytest.raises(UserErrors) as refused:
        check_images(few)
    of = "20 real images, of 40 in data.path"
    singular, subset = refused.value.lines
    assert singular.startswith(f"evaluation.allow_singular: false; half of {of}")
    assert subset == f"evaluation.kid_subset: 500; allowed for {of}: at most 20"
    check_images(params(tmp_path / "forty.npy", **{"evaluation.kid_subset": 20}))
    np.save(tmp_path / "five.npy", np.zeros((5, 8, 8), np.uint8))
    with pytest.raises(UserErrors, match=r"^data\.holdout: 0\.5: holds out 2 of 5 images; allowed: "):
        check_images(params(tmp_path / "five.npy"))


@pytest.mark.parametrize("name", ["labelled", "labelled.npz"])
def test_labels_are_found(places, name):
    check_labels(params(places / name))
    refused = refusal(check_labels, params(places / name, **CLASSES))
    assert refused.startswith("network.condition.classes: 3; the data are of 2 classes")


def test_as_many_classes_as_the_data_have(places, tmp_path):
    line = "network.condition.classes: 3; the data are "
    few = params(places / "flat", extractor=INCEPTION, **CLASSES)
    assert refusal(check_labels, few).startswith(f"{line}without labels")
    check_labels(Params.read(DEFAULT))
    digits = Params.read(edited(DEFAULT, CLASSES, tmp_path))
    assert refusal(check_labels, digits).startswith(f"{line}of 10 classes, allowed: 10, or kind none")


def test_damaged_data_are_refused_in_one_line(places):
    np.savez(places / "odd.npz", images=IMAGES, labels=np.float32(1))
    (places / "cut.npz").write_bytes((places / "bare.npz").read_bytes()[:-9])
    for name, said in (("odd.npz", "odd.npz: labels of type float32"), ("cut.npz", "cut.npz: not readable")):
        assert said in refusal(check_labels, params(places / name))


def test_held_out_images_of_cifar10_are_counted_as_they_are_prepared(tmp_path):
    """It has 50,000 training images: 0.04 of them are 2,000, where 60,000 would give enough for FID."""
    edits = {"data.holdout": 0.04, "evaluation.against": "holdout", "evaluation.kid_subset": 1000}
    chosen = Params.read(edited(DEFAULT.parent / "cifar10-ddpm.yaml", edits, tmp_path))
    with pytest.raises(UserErrors, match=r"half of 2000 real images, of 50000 .* fewer than extractor\.features 2048"):
        check_images(chosen)
