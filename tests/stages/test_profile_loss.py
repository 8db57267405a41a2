"""A profile as files: all spaces and both splits, whatever the network predicts; experts by their routing."""

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from stage_project import write_params

from stages.profile_loss import main
from unequal.diffusion.schedule import NoiseSchedule
from unequal.evaluation.loss_profile import endpoints
from unequal.evaluation.profiles import read_errors
from unequal.models.folder import save_model

#: The tiny models' schedule.
SCHEDULE = NoiseSchedule.linear(50)


@pytest.fixture(autouse=True)
def model(project, prepared, tiny_net, make_record):
    shutil.copytree(prepared.path, "artifacts/data")
    net = tiny_net()
    record = make_record(net, prediction="v_prediction")
    save_model(Path("artifacts/models/base"), net, record)
    for group, (first, last) in enumerate([(0, 9), (10, 49)]):
        one = record.changed(first=first, last=last, group=group, groups=2, parent="base")
        save_model(Path(f"artifacts/models/experts/group_{group}"), net, one)
    net.conv_out.bias.data.fill_(1.0e30)
    save_model(Path("artifacts/models/broken"), net, make_record(net))
    write_params(seed=0, profile={"images": 3, "batch_size": 64, "floor": "all"})


def run(name: str) -> Result:
    return CliRunner().invoke(main, ["--model", name])


def columns() -> dict[str, np.ndarray]:
    rows: list[dict[str, Any]] = list(csv.DictReader(Path("results/profiles/base.csv").read_text().splitlines()))
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


def test_the_table_holds_every_space_of_both_splits():
    assert run("base").exit_code == 0
    table, path = columns(), Path("artifacts/profiles/base.npz")
    snr, alpha2 = SCHEDULE.snr.numpy(), SCHEDULE.alphas_cumprod.numpy()
    for split in ("train", "holdout"):
        errors = read_errors(path, split)
        np.testing.assert_allclose(table[f"loss_{split}"], errors.epsilon.mean(1), rtol=1e-4)
        np.testing.assert_allclose(table[f"loss_{split}_x0_clipped"], errors.x0.mean(1), rtol=1e-4)
        # Images lie within [-1, 1]: clipping brings x0 nearer to every one of them.
        assert (table[f"loss_{split}_x0_clipped"] <= table[f"loss_{split}_x0"] * 1.0001).all()
        for figure in ("loss", "stderr"):
            np.testing.assert_allclose(table[f"{figure}_{split}_x0"], table[f"{figure}_{split}"] / snr, rtol=1e-4)
            np.testing.assert_allclose(table[f"{figure}_{split}_v"], table[f"{figure}_{split}"] / alpha2, rtol=1e-4)
    assert len(table) == 1 + 2 * 2 * 4


def test_figures_hold_the_three_endpoints_of_held_out_images():
    run("base")
    figures = json.loads(Path("results/metrics/profile_base.json").read_text())
    errors = read_errors(Path("artifacts/profiles/base.npz"), "holdout")
    for name, endpoint in endpoints(SCHEDULE).items():
        assert (figures[name], figures[f"{name}_stderr"]) == endpoint.of(errors)
    assert figures["loss_over_timesteps"] == pytest.approx(figures["mean_holdout"])
    # This schedule of 50 timesteps begins below 9.
    log_snr = np.log(SCHEDULE.snr.numpy())
    assert figures["x0_loss_over_log_snr_interval"] == pytest.approx([-4, log_snr[0]])


def test_experts_that_are_all_the_base_have_its_profile():
    """Each draw goes to one of them, cut into other batches."""
    for name in ("base", "experts"):
        assert run(name).exit_code == 0
    for split in ("train", "holdout"):
        base, experts = (read_errors(Path(f"artifacts/profiles/{name}.npz"), split) for name in ("base", "experts"))
        for one, other in zip(base, experts, strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-4)
    assert json.loads(Path("results/metrics/profile_experts.json").read_text())["experts"] == 2


def test_experts_of_which_one_is_missing_and_losses_that_overflow_are_refused_in_one_line():
    shutil.rmtree("artifacts/models/experts/group_1")
    missing = "profile_loss: artifacts/models/experts/group_1: missing"
    for name, said in (("experts", missing), ("broken", "profile_loss: the loss profile holds inf at t = 0; losses")):
        result = run(name)
        assert result.exit_code == 1
        assert result.output.startswith(said) and result.output.count("\n") == 1
        assert not Path(f"artifacts/profiles/{name}.npz").exists()
