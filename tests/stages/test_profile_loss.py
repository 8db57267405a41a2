"""A model's profile as files: all spaces and both splits, whatever the network predicts."""

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

from stages.profile_loss import main
from unequal.data.prepared import PreparedData
from unequal.diffusion.schedule import NoiseSchedule
from unequal.files import read_npz
from unequal.models.folder import ModelRecord, save_model

#: The tiny models' schedule.
SCHEDULE = NoiseSchedule.linear(50)


@pytest.fixture(autouse=True)
def model(
    project: Path,
    prepared: PreparedData,
    tiny_net: Callable[..., UNet2DModel],
    make_record: Callable[..., ModelRecord],
) -> None:
    shutil.copytree(prepared.path, "artifacts/data")
    net = tiny_net()
    save_model(Path("artifacts/models/base"), net, make_record(net, prediction="v_prediction"))
    net.conv_out.bias.data.fill_(1.0e30)
    save_model(Path("artifacts/models/broken"), net, make_record(net))
    write_params(seed=0, profile={"images": 3, "batch_size": 64, "floor": "all"})


def run(name: str) -> Result:
    return CliRunner().invoke(main, ["--model", name])


def columns() -> dict[str, np.ndarray]:
    rows: list[dict[str, Any]] = list(csv.DictReader(Path("results/profiles/base.csv").read_text().splitlines()))
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


def test_the_table_holds_every_space_of_both_splits() -> None:
    assert run("base").exit_code == 0
    table, measured = columns(), read_npz(Path("artifacts/profiles/base.npz"), ["train", "holdout"])
    snr, alpha2 = SCHEDULE.snr.numpy(), SCHEDULE.alphas_cumprod.numpy()
    for split, losses in measured.items():
        np.testing.assert_allclose(table[f"loss_{split}"], losses.mean(1), rtol=1e-4)
        for figure in ("loss", "stderr"):
            np.testing.assert_allclose(table[f"{figure}_{split}_x0"], table[f"{figure}_{split}"] / snr, rtol=1e-4)
            np.testing.assert_allclose(table[f"{figure}_{split}_v"], table[f"{figure}_{split}"] / alpha2, rtol=1e-4)
    assert len(table) == 1 + 2 * 2 * 3


def test_figures_say_how_unequal_timesteps_are_in_every_space() -> None:
    run("base")
    figures, table = json.loads(Path("results/metrics/profile_base.json").read_text()), columns()
    for name in ("train", "train_v", "train_x0", "holdout", "holdout_v", "holdout_x0"):
        loss = table[f"loss_{name}"]
        assert figures[f"mean_{name}"] == pytest.approx(loss.mean(), rel=1e-4)
        assert figures[f"largest_over_smallest_{name}"] == pytest.approx(loss.max() / loss.min(), rel=1e-4)


def test_a_model_whose_loss_overflows_is_refused_in_one_line() -> None:
    result = run("broken")
    assert result.output == "profile_loss: the loss profile holds inf at t = 0; losses are finite\n"
    assert result.exit_code == 1
    assert not Path("artifacts/profiles/broken.npz").exists()
