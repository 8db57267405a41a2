"""The study's settings are sound, arms differ from controls in what is asked about alone, and bad ones are a line."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from params_files import edited

from studies.predictions.params import Params
from unequal.errors import UserError

STUDY = Path(__file__).parents[1] / "params.yaml"
SINGLE = ["epsilon", "epsilon_again", "v_prediction", "sample"]


def test_an_arm_differs_from_its_control_in_one_thing() -> None:
    found = yaml.safe_load(STUDY.read_text(encoding="utf-8"))
    recipes = found["recipes"]
    asked = {"prediction", "mixing"}, {"loss_weight"}, {"mixing"}, set[str]()
    for one in [*found["blocks"]["comparisons"], found["blocks"]["repeated"]]:
        arm, control = recipes[one["arm"]], recipes[one["control"]]
        changed = {key for key in {*arm, *control} if arm.get(key) != control.get(key)}
        if one["arm"] == "balanced":  # whose normalising is its own
            changed -= {"loss_weight"}
            assert control["loss_weight"]["half_life_images"] == arm["mixing"]["half_life_images"]
        assert changed in asked or changed == {"prediction"}, one


@pytest.mark.parametrize(
    ("edits", "complaint"),
    [
        (
            {"predictions.mixed": ["best_common", "epsilon"], "predictions.tried": ["best_common"]},
            "predictions: single and mixed:",
        ),
        ({"predictions.tried": ["epsilon"]}, "predictions: tried: 'epsilon' has not three heads; those of mixed have:"),
        (
            {"predictions.tried": ["balanced", "balanced"]},
            "predictions: tried: ['balanced', 'balanced'] names",
        ),
        ({"predictions.single": SINGLE}, "predictions: arm 'epsilon_normalised' is missing; name it under single or"),
        (
            {"predictions.batch_sizes": {"balancing": 8}},
            "predictions.batch_sizes: 'balancing' is no arm; there is: epsilon, epsilon_again, v_prediction,",
        ),
        (
            {"predictions.batch_sizes": {"epsilon": 500_000}},
            "predictions.batch_sizes.epsilon: 500000; recipes.epsilon sees 240000 images",
        ),
        (
            {"recipes.balanced.images": 2559, "recipes.balanced.optimizer.warmup_images": 0},
            "recipes.balanced.images: 2559; three heads are compared over 20 periods of their training: at least 2560",
        ),
        (
            {"recipes.sample.prediction": "v_prediction", "recipes.sample_normalised.prediction": "v_prediction"},
            "predictions.single: no arm predicts 'sample'; heads are held against one that does",
        ),
        ({"predictions.ranges": 2000}, "predictions.ranges: 2000 of 1000 timesteps; at most as many"),
        ({"predictions.samples": 60}, "predictions.samples: 60; at least extractor.features, 64"),
        ({"predictions.samples": 500}, "predictions.samples: 500; at least evaluation.kid_subset, 1000"),
        ({"recipes.balanced.prediction": "epsilon", "recipes.balanced.mixing": None}, "recipes.balanced.prediction:"),
        ({"recipes.epsilon.prediction": "mixed"}, "recipes.epsilon: prediction 'mixed' needs the key mixing"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(tmp_path: Path, edits: dict[str, Any], complaint: str) -> None:
    path = edited(STUDY, edits, tmp_path)
    with pytest.raises(UserError) as refusal:
        Params.read(path)
    assert str(refusal.value).startswith(f"{path}: {complaint}"), refusal.value
    assert "\n" not in str(refusal.value)
