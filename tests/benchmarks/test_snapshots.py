"""The share is that of the snapshots which the training has kept."""

from pathlib import Path

import pytest
import torch

from benchmarks.snapshots import measure
from unequal.tools.params import read_params

ROOT = Path(__file__).parents[2]


def test_the_share_is_of_one_training() -> None:
    params = read_params(ROOT / "params.yaml")
    short = params.recipes["base"].model_copy(update={"images": 512, "snapshots": (128, 256)})
    quick = params.model_copy(update={"recipes": {"base": short}})
    result = measure(quick, "base", torch.device("cpu"), repeats=3)
    assert result["snapshots"] == 2
    assert result["share"] == pytest.approx(2 * result["snapshot_seconds"] / result["training_seconds"])
    assert 0 < result["share"] < 1
