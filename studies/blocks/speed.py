"""How many images arms take for the same FID: by what factor of images their curves lie apart.

A factor of images is a shift of a curve of ln FID over ln images, found over the second half of the training against
the baseline's curve of the same block; see `unequal.evidence.speed`. It asks for no common target, and no first
crossing counts that a training has gone back on. A curve is that of `path`, whose FIDs are all of as many samples:
their common bias moves no shift.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from studies.blocks.settings import IMAGES
from unequal.errors import UserError
from unequal.evidence.speed import Curve, last_crossing, log_speed_up

#: A training's figures.
Training = Mapping[str, Any]


def curve_of(training: Training) -> Curve:
    """FID along a training. Raises UserError where it was measured at its end alone."""
    if not training.get("path"):
        raise UserError("a training without a path; measure it along its snapshots")
    return Curve([one["images"] for one in training["path"]], [one["fid"] for one in training["path"]])


def with_images(training: Training, baseline: Training) -> dict[str, Any]:
    """The figures with the images for the same FID among the endpoints, as a multiple of the baseline's.

    Raises UserError where no shift fits.
    """
    images = float(np.exp(-log_speed_up(curve_of(training), curve_of(baseline))))
    return {**training, "endpoints": {**training["endpoints"], IMAGES: images}}


class Compared(NamedTuple):
    """Trainings, arm → block → figures, with their images for the same FID; and arm → why it has none."""

    trainings: dict[str, dict[int, dict[str, Any]]]
    without: dict[str, str]


def compared(trainings: Mapping[str, Mapping[int, Training]], baseline: str) -> Compared:
    """The images for the same FID of all arms whose curves can be shifted onto the baseline's in every block."""
    found = Compared({}, {})
    for arm, own in trainings.items():
        found.trainings[arm] = {}
        for block, one in own.items():
            try:
                found.trainings[arm][block] = with_images(one, trainings[baseline][block])
            except UserError as error:
                found.trainings[arm][block] = dict(one)
                found.without[arm] = f"block {block}: {error}"
    return found


def arrivals(trainings: Mapping[int, Training], baseline: Mapping[int, Training]) -> list[float | None]:
    """Images after which each block's training stays at the FID with which its baseline ends; None: never."""
    return [last_crossing(curve_of(one), curve_of(baseline[block]).figures[-1]) for block, one in trainings.items()]


def piloted(tries: Mapping[str, Training], baseline: Training) -> dict[str, dict[str, Any]]:
    """The same for all tries of an arm in a block of a pilot, against one training of that block.

    What brought a training to half of its images takes twice as many for the same FID: a doubling is worth a doubling.

    Raises UserError where no shift fits: such a pilot bounds no scatter.
    """
    found = {label: with_images(one, baseline) for label, one in tries.items()}
    return {
        label: {**one, "half": {**one["half"], IMAGES: 2 * one["endpoints"][IMAGES]}} for label, one in found.items()
    }
