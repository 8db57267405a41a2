"""The study's own settings: three heads, held against single predictions of one grid."""

from pathlib import Path
from typing import Any

import pytest
from params_files import edited

from studies.predictions.params import Params
from unequal.errors import UserError

STUDY = Path(__file__).parents[1] / "params.yaml"


@pytest.mark.parametrize(
    ("edits", "complaint"),
    [
        (
            {"grid.batches": ["32x1", "64x1"]},
            "predictions: needs a grid of one batch, whose recipes it is held against",
        ),
        (
            {"predictions.mixed": ["best_common", "best_native", "balanced", "epsilon"]},
            "recipes.epsilon.prediction: 'epsilon'; 'mixed' is for epsilon, best_common, best_native, balanced",
        ),
        (
            {"predictions.mixed": ["best_common", "best_native"], "grid.recipes": ["epsilon", "sample", "balanced"]},
            "recipes: no stage trains by 'v_prediction'",
        ),
        ({"predictions.mixed": ["best_common", "best_native"]}, "recipes: no stage trains by 'balanced'"),
        (
            {"recipes.balanced.images": 2559, "recipes.balanced.optimizer.warmup_images": 0},
            "recipes.balanced.images: 2559; three heads are compared over 20 periods of their training: at least 2560",
        ),
        ({"predictions.selections": ["blend", "blend"]}, "predictions: selections: ['blend', 'blend'] names one twice"),
        (
            {"grid.batches": ["1000000x1"]},
            "grid.batches: '1000000x1' is a batch of 1000000, recipe 'epsilon' sees",
        ),
        (
            {"sampling.variance": "learned", "sampling.eta": 1.0, "network.variance": "learned"},
            "sampling.variance: 'learned'; mixed models have learned none; allowed: posterior",
        ),
        (
            {"network.pretrained": "net"},
            "network.pretrained: 'net'; recipe 'epsilon' of the grid starts from fresh weights: null",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(tmp_path: Path, edits: dict[str, Any], complaint: str) -> None:
    path = edited(STUDY, edits, tmp_path)
    with pytest.raises(UserError) as refusal:
        Params.read(path)
    assert str(refusal.value).startswith(f"{path}: {complaint}")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("mixed", "complaint"),
    [
        (
            ["best_common", "best_native"],
            "recipes.balanced.prediction: 'mixed'; 'mixed' is for best_common",
        ),
        (["best_common", "best_native", "balanced"], "predictions.mixed: 'balanced' is a recipe of the grid"),
    ],
)
def test_a_single_recipe_of_a_grid_has_one_head(tmp_path: Path, mixed: list[str], complaint: str) -> None:
    singles = ["epsilon", "v_prediction", "sample", "balanced"]
    with pytest.raises(UserError, match=complaint):
        Params.read(edited(STUDY, {"grid.recipes": singles, "predictions.mixed": mixed}, tmp_path))
