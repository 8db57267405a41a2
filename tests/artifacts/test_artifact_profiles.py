"""Profiles and curves: each comes back from its file as it was; one that is unfit is refused where it is read."""

from pathlib import Path

import numpy as np
import pytest
from one_line import refusal

from unequal.artifacts.profiles import read_curve, read_errors, read_profile, write_profile
from unequal.errors import UserError
from unequal.files import read_npz, write_csv, write_npz
from unequal.measures.loss_profile import Errors

TRAIN, HOLDOUT = (Errors(*np.random.default_rng(seed).gamma(2.0, size=(2, 30, 4))) for seed in (0, 1))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_profile(tmp_path / "base.npz", {"train": TRAIN, "holdout": HOLDOUT})
    return tmp_path / "base.npz"


def test_losses_and_errors_come_back(path: Path) -> None:
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
def test_errors_of_x0_that_are_none_are_refused(path: Path, table: np.ndarray | None, said: str) -> None:
    tables = read_npz(path, ["train", "holdout", "train_x0"])
    write_npz(path, **tables, **({} if table is None else {"holdout_x0": table}))
    with pytest.raises(UserError, match=rf"base\.npz: {said}"):
        read_errors(path)
    # Who reads losses alone has no need of them.
    assert set(read_profile(path)) == {"train", "holdout"}


def test_a_curve_is_what_was_logged(tmp_path: Path):
    file = tmp_path / "base.csv"
    lines = [(10, 0.5, 5), (20, 0.25, 2)]
    write_csv(file, [dict(zip(("images_seen", "loss", "images_per_second"), line, strict=True)) for line in lines])
    curve = read_curve(file)
    assert np.transpose(curve).tolist() == [list(line) for line in lines]
    # 10 images at 5 a second, then 10 at 2.
    assert curve.seconds == 7
    write_csv(file, [{"step": 0, "images_seen": 0, "loss": ""}])
    assert [len(column) for column in read_curve(file)] == [0, 0, 0], "nothing was logged"


@pytest.mark.parametrize(
    "text",
    [
        "images_seen,loss\n1,low\n",
        "images_seen,loss\n10\n",
        "images_seen,loss,images_per_second\n10,nan,1\n",
        "images_seen,loss,images_per_second\n10,1,0\n",
        "images_seen,loss,images_per_second\n20,1,1\n10,1,1\n",
        "",
    ],
)
def test_what_is_no_curve_is_refused(tmp_path: Path, text: str):
    file = tmp_path / "base.csv"
    file.write_text(text)
    assert "no training curve" in refusal(read_curve, file)
