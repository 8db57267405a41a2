"""How many images arms take for the same FID, or the same loss: by what factor of images their curves lie apart.

A factor of images is a shift of a curve of ln FID over ln images, found over the second half of the slower training
against the whole curve of the faster one, arm and baseline of the same block; see `unequal.evidence.speed`. It asks for
no common target, and no first crossing counts that a training has gone back on. A curve is that of `path`, whose FIDs
are all of as many samples: their common bias moves no shift.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from studies.blocks.settings import images_for
from unequal.errors import UserError
from unequal.evidence.speed import Curve, last_crossing, log_speed_up

#: A training's figures.
Training = Mapping[str, Any]


def curve_of(training: Training, endpoint: str) -> Curve:
    """An endpoint along a training. Raises UserError where it was not measured along it."""
    if not all(endpoint in one for one in training.get("path") or [{}]):
        raise UserError(f"a training without a path of {endpoint}; measure it along its snapshots")
    return Curve([one["images"] for one in training["path"]], [one[endpoint] for one in training["path"]])


def with_images(training: Training, baseline: Training, endpoint: str) -> dict[str, Any]:
    """The figures with the images for the same of an endpoint among the endpoints, as a multiple of the baseline's.

    Raises UserError where one of them has no path.
    """
    curves = (curve_of(one, endpoint) for one in (training, baseline))
    images = float(np.exp(-log_speed_up(*curves)))
    return {**training, "endpoints": {**training["endpoints"], images_for(endpoint): images}}


def compared(
    trainings: Mapping[str, Mapping[int, Training]], baseline: str, by: Sequence[str]
) -> dict[str, dict[int, dict[str, Any]]]:
    """Trainings, arm → block → figures, with the images that they take for the same of each endpoint.

    Raises UserError where one has no path.
    """
    told = {arm: {block: dict(one) for block, one in own.items()} for arm, own in trainings.items()}
    for endpoint in by:
        for own in told.values():
            for block, one in own.items():
                own[block] = with_images(one, trainings[baseline][block], endpoint)
    return told


def arrivals(trainings: Mapping[int, Training], baseline: Mapping[int, Training], endpoint: str) -> list[float | None]:
    """Images after which each block's training stays at what its baseline ends with, or below; None: never."""
    return [
        last_crossing(curve_of(one, endpoint), curve_of(baseline[block], endpoint).figures[-1])
        for block, one in trainings.items()
    ]


def piloted(tries: Mapping[str, Training], baseline: Training, endpoint: str) -> dict[str, dict[str, Any]]:
    """The same for all tries of an arm in a block of a pilot, against one training of that block.

    What brought a training to half of its images takes twice as many for the same: a doubling is worth a doubling.

    Raises UserError where one has no path: such a pilot bounds no scatter.
    """
    found, name = {label: with_images(one, baseline, endpoint) for label, one in tries.items()}, images_for(endpoint)
    return {label: {**one, "half": {**one["half"], name: 2 * one["endpoints"][name]}} for label, one in found.items()}
