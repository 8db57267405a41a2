"""Scoring a model: what it is compared with is named, and what cannot be scored is not sampled."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from one_line import refusal

from unequal.data.prepared import PreparedData
from unequal.evaluation import fidelity
from unequal.evaluation.fidelity import BuiltExtractor
from unequal.evaluation.sets import Reference
from unequal.evaluation.variant import Scoring
from unequal.runtime import processes
from unequal.settings.evaluation import Evaluation

NOTHING: Any = None
RUNTIME = SimpleNamespace(progress=False)
WORKSPACE: Any = SimpleNamespace(work=Path("work/stage"), device=torch.device("cpu"), runtime=RUNTIME)


@pytest.mark.parametrize(
    ("against", "samples", "subset", "features", "said"),
    [
        ("train", 100, 10, 64, "FID: 36 training images (evaluation.against: train) for 64 features make"),
        ("train", 40, 10, 50, "FID: 40 samples for 50 features make the covariance singular"),
        ("train", 100, 50, 8, "KID: subsets of 50 of 36 training images (evaluation.against: train); allowed: 2 … 36"),
        ("holdout", 100, 4, 4, "precision: 12 neighbours of one of 12 held-out images (evaluation.against: hold"),
    ],
)
def test_too_few_images_are_refused_before_any_is_sampled(prepared, against, samples, subset, features, said):
    asked = scoring(prepared, features, samples, against=against, kid_subset=subset)
    assert refusal(asked.scores, NOTHING, "base").startswith(said)


def scoring(data: PreparedData, features: int, samples: int, **chosen: Any) -> Scoring:
    evaluation = Evaluation(samples=samples, seeds=(0,), allow_singular=False, neighbourhood=12, **chosen)
    return Scoring(WORKSPACE, NOTHING, evaluation, data, extractor_of(features=features))


def test_features_of_real_images_are_kept_by_data_weights_code_and_threads(prepared, monkeypatch):
    chosen = scoring(prepared, 8, 40, kid_subset=6)

    def key(weights: str = "a", **changes: Any) -> str:
        extractor = extractor_of(kind="dinov2", weights_sha256=weights * 64)
        evaluation = chosen.evaluation.model_copy(update=changes)
        found = replace(chosen, extractor=extractor, evaluation=evaluation).features_cache()
        assert found is not None and found[0] == Path("work/features")
        return found[1]

    keys = [key(), key(weights="b"), key(against="holdout"), key(neighbourhood=5)]
    with monkeypatch.context() as patch:
        patch.setattr(fidelity, "content_hash", lambda path: f"{path.name} edited")
        keys.append(key())
    with processes.threads(torch.get_num_threads() + 1):
        keys.append(key())
    assert len(set(keys)) == len(keys)
    assert key() == keys[0]
    assert chosen.features_cache() is None, "a classifier's"


def extractor_of(**changes: Any) -> BuiltExtractor:
    facts = {"kind": "classifier", "features": 8, "weights": None, "weights_sha256": None, "holdout_accuracy": 0.75}
    return BuiltExtractor(**facts | changes)


@pytest.mark.parametrize(("against", "said"), [("train", "its first 36 images"), ("holdout", "its last 12 images")])
def test_the_images_that_samples_are_compared_with_are_named(prepared, against, said):
    reference = Reference.of(prepared, against)
    border = prepared.facts["split"]["train"][1]
    expected = prepared.images[:border] if against == "train" else prepared.images[border:]
    np.testing.assert_array_equal(reference.images, expected)
    assert reference.name == f"{prepared.facts['sha256'][:12]}, {said}"
    assert reference.description.startswith("training" if against == "train" else "held-out")
