"""A training's curve, read from what the training left."""

from pathlib import Path

import pytest

from unequal.artifacts.profiles import read_curve
from unequal.errors import UserError
from unequal.files import write_csv


def test_a_curve_is_what_was_logged(tmp_path: Path):
    file = tmp_path / "base.csv"
    write_csv(file, [{"step": 1, "images_seen": 10, "loss": 0.5}, {"step": 2, "images_seen": 20, "loss": 0.25}])
    images, losses = read_curve(file)
    assert images.tolist() == [10, 20]
    assert losses.tolist() == [0.5, 0.25]


def test_a_training_that_logged_nothing_has_an_empty_curve(tmp_path: Path):
    file = tmp_path / "base.csv"
    write_csv(file, [{"step": 0, "images_seen": 0, "loss": ""}])
    assert [len(column) for column in read_curve(file)] == [0, 0]


@pytest.mark.parametrize(
    "text",
    [
        "step\n1\n",
        "images_seen,loss\n1,low\n",
        "images_seen,loss\n10\n",
        "images_seen,loss\n10,nan\n",
        "images_seen,loss\n10,0\n",
        "images_seen,loss\n20,1\n10,1\n",
        "\x00",
        "",
    ],
)
def test_what_is_no_curve_is_refused(tmp_path: Path, text: str):
    file = tmp_path / "base.csv"
    file.write_text(text)
    with pytest.raises(UserError, match="no training curve"):
        read_curve(file)


def test_a_missing_curve_is_named(tmp_path: Path):
    with pytest.raises(UserError, match="missing"):
        read_curve(tmp_path / "base.csv")
