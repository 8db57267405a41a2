"""Loss profiles and their floor as files between stages: readers refuse bad ones.

A model's profile has four tables: errors of ε of `train` and `holdout` draws, and those of x0 of the same draws, with
`_x0` behind their names.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from unequal.errors import UserError
from unequal.evaluation.loss_profile import Errors, checked, excess_loss
from unequal.runtime.files import read_npz, write_npz

#: Behind the name of a split: its errors of x0.
X0 = "_x0"


def write_profile(path: Path, errors: Mapping[str, Errors]) -> None:
    """Write the errors of a model, split → errors."""
    tables = {split: measured.epsilon for split, measured in errors.items()}
    write_npz(path, **tables, **{f"{split}{X0}": measured.x0 for split, measured in errors.items()})


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


def excess_of(profile: Path, floor: Path) -> np.ndarray:
    """Subtract the optimal-denoiser loss from a model's loss on training images, [T], for groups of equal excess loss.

    Raises UserError where a file is missing or damaged, or the optimal-denoiser loss has not been computed.
    """
    lowest = read_floor(floor)
    if not lowest.size:
        raise UserError("groups.kind: 'excess_loss' needs a floor; set profile.floor to all, or a number of images")
    return excess_loss(read_losses(profile), lowest)


def sound(losses: np.ndarray, path: Path) -> np.ndarray:
    """Return the losses of a file. Raises UserError where they are unfit."""
    try:
        checked(losses)
    except UserError as error:
        raise UserError(f"{path}: {error}; make it again") from None
    return losses
