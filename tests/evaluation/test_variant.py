"""Scoring a model: what cannot be scored is not sampled."""

from typing import Any

import pytest

from unequal.data.prepared import PreparedData
from unequal.errors import UserError
from unequal.evaluation.fidelity import BuiltExtractor
from unequal.evaluation.variant import Scoring
from unequal.settings.evaluation import Evaluation


@pytest.mark.parametrize(
    ("samples", "subset", "features", "said"),
    [
        (100, 10, 64, "FID: 36 reference images for 64 features make the covariance singular"),
        (40, 10, 50, "FID: 40 samples for 50 features make the covariance singular"),
        (100, 50, 8, "KID: subsets of 50 of 36 reference images; allowed: 2 … 36"),
    ],
)
def test_too_few_images_are_refused_before_any_is_sampled(
    prepared: PreparedData, samples: int, subset: int, features: int, said: str
) -> None:
    chosen = Evaluation(samples=samples, seeds=(0,), kid_subset=subset, allow_singular=False)
    extractor = BuiltExtractor(kind="classifier", features=features, weights=None, weights_sha256=None)
    nothing: Any = None
    with pytest.raises(UserError, match=f"^{said}"):
        Scoring(nothing, nothing, chosen, prepared, extractor).scores(nothing, "base")
