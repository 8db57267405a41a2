"""Loss profiles and their floor as files that stages hand on: who reads one is told which of them is unfit."""

from pathlib import Path

import numpy as np

from unequal.errors import UserError
from unequal.files import read_npz
from unequal.measures.loss_profile import checked


def read_profile(path: Path) -> dict[str, np.ndarray]:
    """Split → losses of a model, [T, n]. Raises UserError where the file is missing, damaged or holds other tables."""
    return {split: sound(losses, path) for split, losses in read_npz(path, ["train", "holdout"]).items()}


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
