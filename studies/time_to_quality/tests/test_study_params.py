"""The study's own settings: a grid that can be trained, and recipes that can be compared."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from params_files import edited

from studies.time_to_quality.params import Params
from unequal.errors import UserError

STUDY = Path(__file__).parents[1] / "digits" / "params.yaml"
UNIFORM = yaml.safe_load(STUDY.read_text(encoding="utf-8"))["recipes"]["uniform"]

GAUSSIAN = {"kind": "curriculum", "target": "gaussian", "ramp_images": 9, "uniform_share": 0}


@pytest.mark.parametrize(
    ("edits", "complaint"),
    [
        ({"grid.batches": ["16"]}, 'grid.batches.0: "16": no batch; allowed: images at once × parts accumulated'),
        ({"grid.batches": ["0x4"]}, 'grid.batches.0: "0x4": no batch'),
        ({"grid.seeds": [0, 0]}, "grid: seeds: [0, 0] names one twice"),
        ({"grid.recipes": ["uniform", "none"]}, "recipes: 'none' is missing"),
        ({"grid.batches": ["24001x1"]}, "grid.batches: '24001x1' is a batch of 24001, recipe 'uniform' sees 24000"),
        ({"recipes.uniform.snapshots": [8, 8]}, "recipes.uniform: snapshots: [8, 8] must rise strictly"),
        ({"recipes.uniform.snapshots": [24000]}, "recipes.uniform: snapshots: [24000] must rise strictly and end"),
        ({"time_to_quality.baselines": {"both": "none"}}, "time_to_quality.baselines: 'none' is no recipe of the grid"),
        ({"time_to_quality.baselines": {"both": "both"}}, "time_to_quality.baselines: 'both' and 'both' must be two"),
        ({"grid.lr_scaling": "cubic"}, "grid.lr_scaling: \"cubic\": Input should be 'none', 'sqrt' or 'linear'"),
        ({"recipes.unused": UNIFORM}, "recipes: no stage trains by 'unused'; delete it"),
        # Paper 2's settings.
        ({"recipes.curriculum.sampler.ramp_images": 0}, "recipes.curriculum.sampler.ramp_images: 0: Input should be"),
        ({"recipes.curriculum.sampler.ramp_images": 24001}, "recipes.curriculum: sampler.ramp_images: 24001 is longer"),
        ({"recipes.curriculum.sampler.uniform_share": 1.0}, "recipes.curriculum.sampler.uniform_share: 1.0: In"),
        (
            {"recipes.curriculum.sampler": GAUSSIAN | {"mean": 1.0}},
            "recipes.curriculum.sampler.mean: 1.0: Input should be less than 1",
        ),
        ({"recipes.paper2.optimizer.betas": [1.0, 0.9]}, "recipes.paper2.optimizer: betas: [1.0, 0.9] must lie"),
        (
            {"recipes.both.optimizer.momentum_decay.lr_compensation": "raise"},
            "recipes.both.optimizer: momentum_decay.lr_compensation: 'raise' does not fit adamw",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)  # fmt: skip
def test_what_cannot_be_is_refused_in_one_line(tmp_path: Path, edits: dict[str, Any], complaint: str) -> None:
    path = edited(STUDY, edits, tmp_path)
    with pytest.raises(UserError) as refusal:
        Params.read(path)
    assert "\n" not in str(refusal.value)
    assert str(refusal.value).startswith(f"{path}: {complaint}")
