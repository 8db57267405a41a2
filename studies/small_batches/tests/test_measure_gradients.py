"""Gradients of a model as files: a row for each sampler and batch, slots' moments and cosines."""

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from diffusers.models.unets.unet_2d import UNet2DModel
from stage_project import write_params

from studies.small_batches.stages.measure_gradients import main
from unequal.data.prepared import PreparedData
from unequal.files import write_json, write_npz
from unequal.models.folder import ModelRecord, save_model

pytestmark = pytest.mark.slow

SLOTS = [[0, 4], [5, 20], [21, 49]]
SAMPLERS: dict[str, dict[str, Any]] = {
    "uniform": {"kind": "uniform"},
    "even": {"kind": "stratified", "slots": SLOTS, "unbiased": True},
    "learned": {"kind": "loss_second_moment", "history": 2, "uniform_share": 0.001, "unbiased": True},
    "ours": {
        "kind": "adaptive",
        "slots": SLOTS,
        "refresh_images": 10,
        "images_per_bin": 2,
        "memory": 0.0,
        "uniform_share": 0.1,
    },
}


@pytest.fixture(autouse=True)
def model(
    project: Path, prepared: PreparedData, tiny_net: Callable[..., UNet2DModel], make_record: Callable[..., ModelRecord]
) -> None:
    shutil.copytree(prepared.path, "artifacts/data")
    net = tiny_net()
    save_model(Path("artifacts/models/base"), net, make_record(net))
    losses = np.random.default_rng(0).gamma(2.0, size=(50, 4)).astype(np.float32)
    write_npz(Path("artifacts/profiles/base.npz"), train=losses)
    write_json(Path("artifacts/slots.json"), {"timesteps": 50, "loss": "total", "slots": SLOTS})
    for name, choice in SAMPLERS.items():
        write_json(Path(f"artifacts/samplers/{name}.json"), choice | {"timesteps": 50})
    sizes = {"parts": 2, "folds": 4, "single_images": 4, "mean_images": 16, "batches": [2, 6]}
    write_params(seed=0, gradients=sizes | {"samplers": list(SAMPLERS)})


def run() -> Result:
    return CliRunner().invoke(main, ["--model", "base"])


def test_every_sampler_and_batch_has_a_row() -> None:
    assert run().exit_code == 0
    rows = list(csv.DictReader(Path("results/gradients/base.csv").read_text().splitlines()))
    assert [(row["sampler"], row["batch"]) for row in rows] == [(name, b) for name in SAMPLERS for b in ("2", "6")]
    found = {(row["sampler"], row["batch"]): row for row in rows}
    for batch in ("2", "6"):
        assert float(found["uniform", batch]["relative_variance"]) == 1
        assert float(found["uniform", batch]["relative_variance_stderr"]) == 0
    small, large = (float(found["uniform", batch]["variance"]) for batch in ("2", "6"))
    assert small == pytest.approx(3 * large)
    for name in ("even", "learned"):
        assert float(found[name, "6"]["bias"]) == pytest.approx(0, abs=1e-9)


def test_slots_have_moments_and_cosines() -> None:
    run()
    facts = json.loads(Path("results/gradients/base.json").read_text())
    assert facts["slots"] == SLOTS
    assert [
        [cells[0][0], cells[1][1]] for cells in zip(facts["cells"][::2], facts["cells"][1::2], strict=True)
    ] == SLOTS
    for name in ("second_moment", "variance", "mean_square", "cosines"):
        assert len(facts[name]) == len(facts[f"{name}_stderr"]) == 3
    np.testing.assert_allclose(
        np.array(facts["variance"]) + np.array(facts["mean_square"]), np.array(facts["second_moment"])
    )
    assert facts["cosines"][0][0] == pytest.approx(1)
    assert len(facts["batches"]) == 8


def test_slots_of_another_model_are_refused_in_one_line() -> None:
    write_json(Path("artifacts/slots.json"), {"timesteps": 60, "loss": "total", "slots": [[0, 59]]})
    result = run()
    assert result.exit_code == 1
    assert result.output.startswith("measure_gradients: artifacts/slots.json: ") and result.output.count("\n") == 1
    assert "60" in result.output and "50" in result.output


def test_three_heads_are_refused_in_one_line(
    tiny_net: Callable[..., UNet2DModel], make_record: Callable[..., ModelRecord]
) -> None:
    net = tiny_net(heads=3)
    save_model(Path("artifacts/models/base"), net, make_record(net, prediction="mixed"))
    result = run()
    assert result.exit_code == 1
    assert result.output.startswith("measure_gradients: model tiny has three heads")


def test_an_unknown_sampler_is_refused_in_one_line() -> None:
    Path("artifacts/samplers/ours.json").unlink()
    result = run()
    assert result.exit_code == 1
    assert result.output.startswith("measure_gradients: artifacts/samplers/ours.json: missing")
