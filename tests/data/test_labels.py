"""Labels that are asked for and not there are missed by the gate, not by a stage that runs later."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from params_files import edited
from PIL import Image

from unequal.data.labels import check_images, check_labels
from unequal.errors import UserError, UserErrors
from unequal.settings.params import Params

DEFAULT = Path(__file__).parents[2] / "params.yaml"
IMAGES = np.zeros((4, 8, 8), np.uint8)
INCEPTION = {"kind": "inception", "weights": None, "features": 2048, "images": 8, "batch_size": 8, "lr": 1.0e-3}
CLASSES = {"network.condition": {"kind": "labels", "classes": 3}, "profile.floor": "none"}


@pytest.fixture
def places(tmp_path: Path) -> Path:
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
def test_a_classifier_needs_labels(places: Path, name: str) -> None:
    with pytest.raises(UserError, match=r"^params\.yaml: extractor\.kind: 'classifier' needs labelled data, and") as no:
        check_labels(params(places / name))
    assert f"data.path: {places / name} has no labels" in str(no.value)
    check_labels(params(places / name, extractor=INCEPTION))


def test_too_few_images_are_refused_with_all_that_they_are_too_few_for(tmp_path: Path) -> None:
    np.save(tmp_path / "forty.npy", np.zeros((40, 8, 8), np.uint8))
    few = params(tmp_path / "forty.npy", **{"evaluation.allow_singular": False})  # 20 are trained on
    with pytest.raises(UserErrors) as refusal:
        check_images(few)
    singular, subset = refusal.value.lines
    assert singular.startswith(
        "params.yaml: evaluation.allow_singular: false; half of 20 real images, of 40 in data.path"
    )
    assert (
        subset == "params.yaml: evaluation.kid_subset: 500; allowed for 20 real images, of 40 in data.path: at most 20"
    )
    check_images(params(tmp_path / "forty.npy", **{"evaluation.kid_subset": 20}))
    np.save(tmp_path / "five.npy", np.zeros((5, 8, 8), np.uint8))
    with pytest.raises(UserErrors, match=r"^params\.yaml: data\.holdout: 0\.5: holds out 2 of 5 images; allowed: "):
        check_images(params(tmp_path / "five.npy"))


@pytest.mark.parametrize("name", ["labelled", "labelled.npz"])
def test_labels_are_found(places: Path, name: str) -> None:
    check_labels(params(places / name))
    with pytest.raises(UserError, match=r"^params\.yaml: network\.condition\.classes: 3; the data are of 2 classes"):
        check_labels(params(places / name, **CLASSES))


def test_a_network_with_labels_needs_them_too(places: Path) -> None:
    with pytest.raises(UserError, match=r"^params\.yaml: network\.condition\.classes: 3; the data are without labels"):
        check_labels(params(places / "flat", extractor=INCEPTION, **CLASSES))


def test_the_digits_have_ten_classes(tmp_path: Path) -> None:
    check_labels(Params.read(DEFAULT))
    with pytest.raises(UserError, match=r"classes: 3; the data are of 10 classes, allowed: 10, or kind none"):
        check_labels(Params.read(edited(DEFAULT, CLASSES, tmp_path)))


def test_damaged_data_are_refused_in_one_line(places: Path) -> None:
    np.savez(places / "odd.npz", images=IMAGES, labels=np.float32(1))
    (places / "cut.npz").write_bytes((places / "bare.npz").read_bytes()[:-9])
    for name, said in (("odd.npz", "odd.npz: labels of type float32"), ("cut.npz", "cut.npz: not readable")):
        with pytest.raises(UserError, match=said):
            check_labels(params(places / name))
