"""Loss profiles, their floor and training curves as files between stages: readers refuse bad ones.

A model's profile has four tables: errors of ε of `train` and `holdout` draws, and those of x0 of the same draws, with
`_x0` behind their names.
"""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from unequal.errors import UserError
from unequal.measures.loss_profile import Errors, checked
from unequal.runtime.files import read_npz, require, write_npz

#: Behind the name of a split: its errors of x0.
X0 = "_x0"


def write_profile(path: Path, errors: Mapping[str, Errors]) -> None:
    """Write the errors of a model, split → errors."""
    tables = {split: found.epsilon for split, found in errors.items()}
    write_npz(path, **tables, **{f"{split}{X0}": found.x0 for split, found in errors.items()})


def read_profile(path: Path) -> dict[str, np.ndarray]:
    """Read a model's losses by split, [T, n]. Raises UserError where the file is missing, damaged or lacks a table."""
    return {split: sound(losses, path) for split, losses in read_npz(path, ["train", "holdout"]).items()}


def read_errors(path: Path, split: str = "holdout") -> Errors:
    """Read errors of ε and of x0 of a model on a split's draws. Raises UserError as `read_profile` does."""
    tables = read_npz(path, [split, f"{split}{X0}"])
    epsilon, x0 = (sound(table, path) for table in tables.values())
    if epsilon.shape != x0.shape:
        raise UserError(
            f"{path}: errors of ε of shape {list(epsilon.shape)} and of x0 of shape {list(x0.shape)} are not of the "
            "same draws; make it again"
        )
    return Errors(epsilon, x0)


def read_losses(path: Path) -> np.ndarray:
    """Read losses of a model on training images, [T, n]. Raises UserError as `read_profile` does."""
    return sound(read_npz(path, ["train"])["train"], path)


def read_floor(path: Path) -> np.ndarray:
    """Read optimal-denoiser losses on training images, [T, n]; n is 0 where there are none. Raises UserError."""
    floor = read_npz(path, ["train"])["train"]
    return floor if floor.ndim == 2 and not floor.shape[1] else sound(floor, path)


def sound(losses: np.ndarray, path: Path) -> np.ndarray:
    """Return the losses of a file. Raises UserError where they are unfit."""
    try:
        checked(losses)
    except UserError as error:
        raise UserError(f"{path}: {error}; make it again") from None
    return losses


#: Columns of results/training/<model>.csv that make a curve.
CURVE_COLUMNS = ("images_seen", "loss", "images_per_second")


class TrainingCurve(NamedTuple):
    """Images seen at each line of a training's log, rising, the loss there, and images a second since the line before.

    All are [n]; n may be 0.
    """

    images: np.ndarray
    losses: np.ndarray
    speeds: np.ndarray

    @property
    def seconds(self) -> float:
        """Time that the logged images took; pauses between a stop and the same command do not count."""
        return float((np.diff(self.images, prepend=0) / self.speeds).sum())


def read_curve(path: Path) -> TrainingCurve:
    """Read the curve of results/training/<model>.csv. Raises UserError where it is missing or no such table."""
    try:
        with require(path).open(encoding="utf-8", newline="") as file:
            table = csv.DictReader(file)
            if not {"images_seen", "loss"} <= set(table.fieldnames or ()):
                raise ValueError("its columns lack images_seen or loss")
            # A training shorter than `training.log_every` leaves one line without a loss.
            rows = [[float(row[name]) for name in CURVE_COLUMNS] for row in table if row["loss"] != ""]
    except (ValueError, KeyError, TypeError, csv.Error) as error:
        raise UserError(f"{path}: no training curve ({error}); make it again") from None
    curve = np.array(rows).reshape(-1, len(CURVE_COLUMNS)).T
    if not (np.isfinite(curve).all() and (curve > 0).all() and (np.diff(curve[0]) > 0).all()):
        raise UserError(f"{path}: no training curve; images seen rise, losses and speeds are finite and above 0")
    return TrainingCurve(*curve)
