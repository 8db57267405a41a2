"""The split into training and held-out images, which no two equal images straddle."""

import numpy as np

from unequal.data.prepared import Copies
from unequal.errors import UserError

#: Two images have a spread; real images are scored half against half.
LEAST_HELD_OUT, LEAST_TRAINED = 2, 4


def training_images(count: int, holdout: float) -> int:
    """Number of training images among `count`.

    Raises:
        UserError: one of the two parts would have too few images for the figures that are made of it.
    """
    held_out = round(count * holdout)
    if not LEAST_HELD_OUT <= held_out <= count - LEAST_TRAINED:
        raise UserError(
            f"data.holdout: {holdout}: holds out {held_out} of {count} images; allowed: a share that gives at least "
            f"{LEAST_HELD_OUT} and leaves at least {LEAST_TRAINED} for training"
        )
    return count - held_out


def split_of(groups: np.ndarray, held_out: int) -> tuple[np.ndarray, int]:
    """Set images apart such that no two equal ones stand on different sides.

    Groups of equal images are held out whole, from the end of the order, as long as they fit into the share. Without
    equal images these are the last ones.

    Args:
        groups: number of the group of each image [n].
        held_out: images to hold out.

    Returns:
        The order of the images, training images first, and the index of the first held-out one.

    Raises:
        UserError: too many images are equal for two parts.
    """
    sizes, chosen, left = np.bincount(groups), np.zeros(groups.max() + 1, bool), held_out
    for group in groups[::-1]:
        if left == 0:
            break
        if not chosen[group] and sizes[group] <= left:
            chosen[group] = True
            left -= int(sizes[group])
    if held_out - left < LEAST_HELD_OUT:
        raise UserError(
            f"data: {len(groups)} images are copies of {len(sizes)}, one of them {sizes.max()} times; copies stand on "
            f"one side of the split, so {held_out - left} of {held_out} can be held out; allowed: at least "
            f"{LEAST_HELD_OUT}"
        )
    held = chosen[groups]
    return np.concatenate([np.flatnonzero(~held), np.flatnonzero(held)]), len(groups) - int(held.sum())


def copies_of(groups: np.ndarray, border: int) -> Copies:
    """Count the images that equal an earlier one on their side of the split."""
    train, holdout = (len(part) - len(np.unique(part)) for part in (groups[:border], groups[border:]))
    return Copies(train=train, holdout=holdout)
