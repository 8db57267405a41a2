"""The study's settings are sound, and what is impossible is refused in one line."""

from pathlib import Path
from typing import Any

import pytest
from params_files import DELETE, edited

from studies.small_batches.params import Params
from unequal.errors import UserError

STUDY = Path(__file__).parents[1] / "params.yaml"


@pytest.mark.parametrize(
    ("edits", "complaint"),
    [
        ({"arms.stratified.serves": DELETE}, "arms.stratified: serves: is needed by a density"),
        ({"arms.stratified.density": DELETE}, "arms.stratified: serves: has no meaning without a density"),
        ({"arms.batch_8": DELETE}, "arms: 'batch_8' of comparison.arms is missing"),
        ({"arms.other": {"batch_size": 8}}, "arms: 'other' is no arm; there is: batch_128"),
        ({"arms.batch_8.batch_size": 200000}, "arms.batch_8.batch_size: 200000; recipes.batch_8 sees 180000 images"),
        (
            {"recipes.stratified.sampler": {"density": "near_noise", "power": 1.0}},
            "recipes.stratified.sampler.density: 'near_noise'; arms.stratified has a density: uniform",
        ),
        ({"slots.count": 1001}, "slots.count: 1001 of 1000 timesteps; at most as many"),
        ({"slots.loss": "excess"}, "slots: no floor is profiled, and no slot fine-tuned; allowed: loss total"),
        ({"mechanism": [0, 7]}, "mechanism: 7 is no block; there is: [0, 1, 2, 3, 4, 5, 6]"),
        ({"mechanism": [0, 0]}, "mechanism: [0, 0] names one twice"),
        ({"mechanism": [0]}, "mechanism"),
        ({"gradients.arms": ["other"]}, "gradients.arms: 'other' is no arm; there is: batch_128"),
        ({"gradients.arms": ["batch_32"]}, "gradients.arms: 'batch_32' needs recipes.batch_32.keep_state: true"),
        ({"gradients.single_images": 63}, "gradients: single_images: 63 is no multiple of the 8 folds"),
        ({"retraining.ways": ["slot_0"]}, 'retraining.ways.0: "slot_0": no way; allowed: uniform, near_noise'),
        ({"retraining.ways": ["slot_9"]}, "retraining.ways: 'slot_9'; there are slots 1 … 8"),
        ({"retraining.ways": ["uniform", "uniform"]}, "retraining.ways: ['uniform', 'uniform'] names one twice"),
        ({"retraining.arms": ["other"]}, "retraining.arms: 'other' is no arm; there is: batch_128"),
        ({"retraining.images": 100}, "retraining.images: 100, less than a batch of arms.batch_128"),
        ({"retraining.warmup_images": 10001}, "retraining.warmup_images: 10001 of 10000 images"),
    ],
)
def test_impossible_settings_are_refused_in_one_line(tmp_path: Path, edits: dict[str, Any], complaint: str) -> None:
    path = edited(STUDY, edits, tmp_path)
    with pytest.raises(UserError) as refusal:
        Params.read(path)
    assert str(refusal.value).startswith(f"{path}: {complaint}"), refusal.value
