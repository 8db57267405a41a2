"""Scoring a model: what it is compared with is told, and what cannot be scored is not sampled."""

import re
from typing import Any

import numpy as np
import pytest

from unequal.data.prepared import PreparedData
from unequal.errors import UserError
from unequal.evaluation.fidelity import BuiltExtractor
from unequal.evaluation.reference import Against, Reference
from unequal.evaluation.variant import Scoring
from unequal.settings.evaluation import Evaluation

NOTHING: Any = None


@pytest.mark.parametrize(
    ("against", "samples", "subset", "features", "said"),
    [
        ("train", 100, 10, 64, "FID: 36 training images (evaluation.against: train) for 64 features make"),
        ("holdout", 100, 4, 20, "FID: 12 held-out images (evaluation.against: holdout) for 20 features make"),
        ("train", 40, 10, 50, "FID: 40 samples for 50 features make the covariance singular"),
        ("train", 100, 50, 8, "KID: subsets of 50 of 36 training images (evaluation.against: train); allowed: 2 … 36"),
        ("holdout", 100, 4, 4, "precision: 12 neighbours of one of 12 held-out images (evaluation.against: hold"),
    ],
)
def test_too_few_images_are_refused_before_any_is_sampled(
    prepared: PreparedData, against: Against, samples: int, subset: int, features: int, said: str
) -> None:
    with pytest.raises(UserError, match=f"^{re.escape(said)}"):
        scoring(prepared, features, samples, against=against, kid_subset=subset).scores(NOTHING, "base")


def scoring(data: PreparedData, features: int, samples: int, **chosen: Any) -> Scoring:
    evaluation = Evaluation(samples=samples, seeds=(0,), allow_singular=False, neighbourhood=12, **chosen)
    extractor = BuiltExtractor(
        kind="classifier", features=features, weights=None, weights_sha256=None, holdout_accuracy=0.75
    )
    return Scoring(NOTHING, NOTHING, evaluation, data, extractor)


@pytest.mark.parametrize(("against", "said"), [("train", "its first 36 images"), ("holdout", "its last 12 images")])
def test_the_images_that_samples_are_compared_with_are_told(
    prepared: PreparedData, against: Against, said: str
) -> None:
    reference = Reference.of(prepared, against)
    border = prepared.facts["split"]["train"][1]
    expected = prepared.images[:border] if against == "train" else prepared.images[border:]
    np.testing.assert_array_equal(reference.images, expected)
    assert reference.name == f"{prepared.facts['sha256'][:12]}, {said}"
    assert reference.told.startswith("training" if against == "train" else "held-out")
