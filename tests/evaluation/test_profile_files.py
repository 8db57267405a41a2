"""Artifacts come back from their files as they were; one that is unfit is refused where it is read."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_inputs
from one_line import refusal
from pydantic import TypeAdapter

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.evaluation.loss_profile import Errors
from unequal.evaluation.profiles import read_errors, read_profile, write_profile
from unequal.report.figures import read_curve
from unequal.runtime.files import read_json, read_npz, write_csv, write_json, write_npz
from unequal.settings.samplers import AnySampler
from unequal.timesteps.building import BaseMeasurements, build_sampler
from unequal.timesteps.partition import Partition
from unequal.training.timestep_files import read_groups, read_sampler, read_slots, write_sampler

TRAIN, HOLDOUT = (Errors(*np.random.default_rng(seed).gamma(2.0, size=(2, 30, 4))) for seed in (0, 1))


@pytest.fixture
def path(tmp_path):
    write_profile(tmp_path / "base.npz", {"train": TRAIN, "holdout": HOLDOUT})
    return tmp_path / "base.npz"


def test_losses_and_errors_come_back(path):
    losses = read_profile(path)
    np.testing.assert_array_equal(losses["train"], TRAIN.epsilon)
    np.testing.assert_array_equal(losses["holdout"], HOLDOUT.epsilon)
    for split, errors in (("train", TRAIN), ("holdout", HOLDOUT)):
        for found, written in zip(read_errors(path, split), errors, strict=True):
            np.testing.assert_array_equal(found, written)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (None, "no table 'holdout_x0' in it; make it again"),
        (HOLDOUT.x0[:, :3], r"errors of ε of shape \[30, 4\] and of x0 of shape \[30, 3\] are not of the same draws"),
        (HOLDOUT.x0 * np.nan, "the loss profile holds nan at t = 0; losses are finite; make it again"),
        (HOLDOUT.x0[0], r"losses of shape \[4\] are no profile"),
    ],
)
def test_errors_of_x0_that_are_none_are_refused(path, table, said):
    tables = read_npz(path, ["train", "holdout", "train_x0"])
    write_npz(path, **tables, **({} if table is None else {"holdout_x0": table}))
    with pytest.raises(UserError, match=rf"base\.npz: {said}"):
        read_errors(path)
    # Who reads losses alone has no need of them.
    assert set(read_profile(path)) == {"train", "holdout"}


def test_a_curve_is_what_was_logged(tmp_path):
    file = tmp_path / "base.csv"
    lines = [(10, 0.5, 5), (20, 0.25, 2)]
    write_csv(file, [dict(zip(("images_seen", "loss", "compute_seconds"), line, strict=True)) for line in lines])
    curve = read_curve(file)
    assert np.transpose(curve).tolist() == [list(line) for line in lines]
    write_csv(file, [{"step": 0, "images_seen": 0, "loss": ""}])
    assert [len(column) for column in read_curve(file)] == [0, 0, 0], "nothing was logged"


@pytest.mark.parametrize(
    "text",
    [
        "images_seen,loss\n1,low\n",
        "images_seen,loss\n10\n",
        "images_seen,loss,compute_seconds\n10,nan,1\n",
        "images_seen,loss,compute_seconds\n10,1,-1\n",
        "images_seen,loss,compute_seconds\n20,1,1\n10,1,1\n",
        "",
    ],
)
def test_what_is_no_curve_is_refused(tmp_path, text):
    file = tmp_path / "base.csv"
    file.write_text(text)
    assert "no training curve" in refusal(read_curve, file)


ENDPOINTS = ("loss_over_timesteps", "loss_over_log_snr", "x0_loss_over_log_snr")


SLOTS = {"timesteps": 10, "loss": "total", "slots": [[0, 3], [4, 9]]}
GROUPS = small_inputs.GROUPS | {"timesteps": 10}
GROUPS["groups"] = [GROUPS["groups"][0] | {"last": 3}, GROUPS["groups"][1] | {"first": 4, "last": 9}]


def written(path: Path, content: object) -> Path:
    write_json(path, content)
    return path


def test_slots_count_from_one_and_groups_from_zero(tmp_path):
    slots = read_slots(written(tmp_path / "slots.json", SLOTS), 10)
    assert [slots.numbered(1), slots.numbered(2)] == [(0, 3), (4, 9)]
    groups = read_groups(written(tmp_path / "groups.json", GROUPS))
    assert (groups.numbered(1).first, groups.numbered(1).last, groups.numbered(1).limit_ratio) == (4, 9, 1.0)


@pytest.mark.parametrize("number", [0, 3, -1])
def test_a_slot_or_group_that_is_not_there(tmp_path, number):
    slots, groups = written(tmp_path / "slots.json", SLOTS), written(tmp_path / "groups.json", GROUPS)
    assert f"slot {number}: there are slots 1 … 2" in refusal(read_slots(slots, 10).numbered, number)
    assert f"group {number - 1}: there are groups 0 … 1" in refusal(read_groups(groups).numbered, number - 1)


T = 30
SCHEDULE = NoiseSchedule.linear(T)
LOSSES = np.random.default_rng(0).gamma(2.0, size=(T, 2))
BASE = BaseMeasurements(loss=LOSSES.mean(1), losses=LOSSES, slots=Partition([(0, 9), (10, 29)]))
CHOSEN: dict[str, tuple[dict[str, Any], set[str]]] = {
    "uniform": ({}, set()),
    "loss": ({}, {"loss"}),
    "slots": ({"draw": "stratified"}, {"slots"}),
    "loss_second_moment": ({"history": 2, "warm_start": True}, {"losses"}),
}


@pytest.mark.parametrize("kind", CHOSEN)
def test_a_sampler_comes_back_with_what_it_needs(kind, tmp_path):
    keys, needs = CHOSEN[kind]
    sampler = TypeAdapter(AnySampler).validate_python({"density": kind} | keys)
    write_sampler(tmp_path / "one.json", sampler, BASE, T)
    assert set(read_json(tmp_path / "one.json")) == {*type(sampler).model_fields, *needs, "timesteps"}
    read = read_sampler(tmp_path / "one.json", SCHEDULE)
    built = build_sampler(sampler, SCHEDULE, BASE)
    assert type(read) is type(built)
    np.testing.assert_array_equal(read.probabilities, built.probabilities)
