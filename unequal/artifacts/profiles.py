"""Loss profiles and their floor as files that stages hand on: who reads one is told which of them is unfit.

A model's profile has four tables: errors of ε of `train` and `holdout` draws, and those of x0 of the same draws, with
`_x0` behind their names.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from unequal.errors import UserError
from unequal.files import read_npz, write_npz
from unequal.measures.endpoints import Errors
from unequal.measures.loss_profile import checked

#: Behind the name of a split: its errors of x0.
X0 = "_x0"


def write_profile(path: Path, errors: Mapping[str, Errors]) -> None:
    """Write the errors of a model, split → errors."""
    tables = {split: found.epsilon for split, found in errors.items()}
    write_npz(path, **tables, **{f"{split}{X0}": found.x0 for split, found in errors.items()})


def read_profile(path: Path) -> dict[str, np.ndarray]:
    """Split → losses of a model, [T, n]. Raises UserError where the file is missing, damaged or holds other tables."""
    return {split: sound(losses, path) for split, losses in read_npz(path, ["train", "holdout"]).items()}


def read_errors(path: Path, split: str = "holdout") -> Errors:
    """Errors of ε and of x0 of a model on a split's draws. Raises UserError as `read_profile` does."""
    tables = read_npz(path, [split, f"{split}{X0}"])
    epsilon, x0 = (sound(table, path) for table in tables.values())
    if epsilon.shape != x0.shape:
        raise UserError(
            f"{path}: errors of ε of shape {list(epsilon.shape)} and of x0 of shape {list(x0.shape)} are not of the "
            "same draws; make it again"
        )
    return Errors(epsilon, x0)


def read_losses(path: Path) -> np.ndarray:
    """Losses of a model on training images, [T, n]. Raises UserError as `read_profile` does."""
    return sound(read_npz(path, ["train"])["train"], path)


def read_floor(path: Path) -> np.ndarray:
    """The least possible losses on training images, [T, n]; [T, 0] where there are none. Raises UserError likewise."""
    floor = read_npz(path, ["train"])["train"]
    return floor if floor.ndim == 2 and not floor.shape[1] else sound(floor, path)


def sound(losses: np.ndarray, path: Path) -> np.ndarray:
    """The losses of a file as they are. Raises UserError where they are none."""
    try:
        checked(losses)
    except UserError as error:
        raise UserError(f"{path}: {error}; make it again") from None
    return losses
