"""Both ends of FID's scale; too few images for them are refused before any model is trained."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from stage_project import write_params

from stages.evaluate_reference import main
from unequal.data.preparation import prepare
from unequal.evaluation.classifier import Classifier, save_classifier
from unequal.evaluation.fidelity import CLASSIFIER, FACTS
from unequal.runtime.files import content_hash, read_json, write_json
from unequal.settings.data import Data


@pytest.fixture(autouse=True)
def extractor(project):
    folder = Path("artifacts/extractor")
    folder.mkdir(parents=True)
    save_classifier(folder / CLASSIFIER, Classifier(1, 8, 4, 2))
    facts = {"kind": "classifier", "features": 4, "weights": CLASSIFIER}
    write_json(folder / FACTS, facts | {"weights_sha256": content_hash(folder / CLASSIFIER)})


def run(**changes: Any) -> Result:
    evaluation = {"samples": 50, "seeds": [0], "kid_subset": 6, "allow_singular": False}
    write_params(evaluation=evaluation | changes)
    return CliRunner().invoke(main, [])


def test_held_out_images_are_compared_with_as_many_training_images_as_samples(prepared):
    """12 held-out images and 36 of the training."""
    shutil.copytree(prepared.path, "artifacts/data")
    for samples, images in ((20, [20, 12]), (50, [36, 12])):
        assert run(against="holdout", samples=samples).exit_code == 0
        found = read_json(Path("results/fid/reference.json"))
        assert (found["real_against_real"]["images"], found["real_sets"]) == (images, "training against held-out")
        assert found["noise_against_real"]["images"] == [samples, 12]
        assert found["reference"].startswith("held-out images: data set ")
    said = "evaluate_reference: KID: subsets of 13 of 12 held-out images (evaluation.against: holdout); allowed: 2 … 12"
    assert run(against="holdout", kid_subset=13).output.startswith(said)


@pytest.mark.parametrize("pixels", ["random", "alike"])
def test_the_smallest_data_set_that_can_be_prepared_is_scored(project, pixels):
    images = np.random.default_rng(0).integers(0, 256 if pixels == "random" else 1, (6, 8, 8)).astype(np.uint8)
    images[:, 0, 0] = range(6)  # copies would stand on one side of the split
    np.save(project / "a.npy", images)
    data = Data(source="array", path=str(project / "a.npy"), image_size=8, channels=1, fit="exact", holdout=0.4)
    prepare(data, 0, Path("artifacts/data"))
    result = run(kid_subset=2)
    singular = "evaluate_reference: FID: 2 samples for 4 features make the covariance singular; use more, or set"
    assert result.output.startswith(singular)
    assert run(kid_subset=2, allow_singular=True).exit_code == 0
    assert read_json(Path("results/fid/reference.json"))["real_against_real"]["images"] == [2, 2]
