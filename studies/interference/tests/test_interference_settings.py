"""The study's own settings: slots that can interfere, and a control that they are held against."""

from pathlib import Path
from typing import Any

import pytest
from params_files import DELETE, edited

from studies.interference.params import Params
from unequal.errors import UserError

STUDY = Path(__file__).parents[1] / "params.yaml"


@pytest.mark.parametrize(
    ("edits", "complaint"),
    [
        ({"interference.slot_recipes": ["slot_low"]}, "interference: slot_recipes: ['slot_low'] must hold slot"),
        (
            {"interference.slot_recipes": ["slot", "slot_2"]},
            "interference: slot_recipes: 'slot_2' must begin with slot and not end in a number, like slot_low",
        ),
        ({"recipes.slot_low": DELETE}, "recipes: 'slot_low' is missing"),
        ({"recipes.slot_low.sampler": {"kind": "uniform"}}, "recipes.slot_low.sampler.kind: 'uniform'; allowed: only"),
        ({"recipes.uniform.prediction": "sample"}, "recipes.uniform.prediction: 'sample'; it trains the base on"),
        (
            {"interference.control": "stratified"},
            "interference.control: 'stratified' is no further recipe with sampler.kind: uniform",
        ),
        ({"slots.count": 1, "slots.finetune": [1]}, "interference: needs slots.count: 2"),
        (
            {"profiled_models": ["base", "uniform", "near_noise", "near_data"]},
            "profiled_models: lacks 'stratified', which interference compares with the base",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(tmp_path: Path, edits: dict[str, Any], complaint: str) -> None:
    path = edited(STUDY, edits, tmp_path)
    with pytest.raises(UserError) as refusal:
        Params.read(path)
    assert str(refusal.value).startswith(f"{path}: {complaint}")
    assert "\n" not in str(refusal.value)


def test_one_learning_rate_is_enough(tmp_path: Path) -> None:
    edits = {"interference.slot_recipes": ["slot"], "recipes.slot_low": DELETE, "recipes.slot_high": DELETE}
    assert Params.read(edited(STUDY, edits, tmp_path)).interference.slot_recipes == ("slot",)
