"""Heads of one network in other combinations: by weights that are known, and as programs on a tiny project."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from studies.predictions.measure_heads import HALVES, by_samples, swapped
from unequal.data.prepared import PreparedData
from unequal.evaluation.sets import Reference
from unequal.timesteps.partition import Partition

CPU = torch.device("cpu")
RECIPE: dict[str, Any] = {
    "images": 40,
    "prediction": "mixed",
    "mixing": {"train": "balanced", "half_life_images": 8, "bins": 5, "select": "profile"},
    "sampler": {"density": "uniform"},
    "loss_weight": {"kind": "none"},
    "optimizer": {"lr": 1e-3, "betas": [0.9, 0.999], "weight_decay": 0.0, "warmup_images": 0, "decay": "constant"},
}
SINGLE = {name: value for name, value in RECIPE.items() if name != "mixing"} | {"prediction": "v_prediction"}
MODEL = Path("artifacts/models/three/block_3")


def test_one_head_answers_where_it_is_chosen() -> None:
    least = np.tile(np.eye(3)[0], (6, 1))
    ranges = Partition.of_lengths([2, 4])
    assert swapped(least, ranges[1], 2).argmax(1).tolist() == [0, 0, 2, 2, 2, 2]
    assert least.argmax(1).tolist() == [0] * 6
    chosen = by_samples(ranges, [[3.0, 1.0, 2.0], [0.5, 1.0, 0.4]])
    assert chosen.argmax(1).tolist() == [1, 1, 2, 2, 2, 2]
    assert chosen.sum(1).tolist() == [1.0] * 6


def test_choice_and_report_share_no_image(prepared: PreparedData) -> None:
    choice, report = (Reference.of(prepared, half) for half in HALVES)
    assert len(choice.images) + len(report.images) == len(prepared.holdout)
    together = {one.tobytes() for one in choice.images} | {one.tobytes() for one in report.images}
    assert together == {one.tobytes() for one in prepared.holdout}
    assert not {one.tobytes() for one in choice.images} & {one.tobytes() for one in report.images}
    assert choice.name != report.name
