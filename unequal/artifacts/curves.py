"""Training curves in `results/training`: images seen and the loss that was logged there."""

import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np

from unequal.errors import UserError
from unequal.files import require


class TrainingCurve(NamedTuple):
    """Images seen at each line of a training's log, rising, and the loss there, both [n]; n may be 0."""

    images: np.ndarray
    losses: np.ndarray


def read_curve(path: Path) -> TrainingCurve:
    """The curve of results/training/<model>.csv. Raises UserError where it is missing or no such table."""
    try:
        with require(path).open(encoding="utf-8", newline="") as file:
            table = csv.DictReader(file)
            if not {"images_seen", "loss"} <= set(table.fieldnames or ()):
                raise ValueError("its columns lack images_seen or loss")
            # A training shorter than `training.log_every` leaves one line without a loss.
            rows = [(float(row["images_seen"]), float(row["loss"])) for row in table if row["loss"] != ""]
    except (ValueError, KeyError, TypeError, csv.Error) as error:
        raise UserError(f"{path}: no training curve ({error}); make it again") from None
    curve = np.array(rows).reshape(-1, 2).T
    if not (np.isfinite(curve).all() and (curve > 0).all() and (np.diff(curve[0]) > 0).all()):
        raise UserError(f"{path}: no training curve; images seen rise, and losses are finite and above 0")
    return TrainingCurve(*curve)
