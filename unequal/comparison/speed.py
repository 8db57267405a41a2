"""How much faster one training gets somewhere than another, by a shift of its curve."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from unequal.comparison.settings import images_for


class Curve(NamedTuple):
    """A training's quality: images seen at its snapshots, rising, and the figure (FID, say; above 0) at each."""

    images: Sequence[int]
    figures: Sequence[float]

    def logarithms(self) -> tuple[np.ndarray, np.ndarray]:
        """ln images and ln figures at the snapshots."""
        return np.log(self.images), np.log(self.figures)

    def second_half(self) -> tuple[np.ndarray, np.ndarray]:
        """ln images and ln figures from half of the images on."""
        images, figures = self.logarithms()
        late = images >= images[-1] - np.log(2)
        return images[late], figures[late]


def log_speed_up(run: Curve, baseline: Curve) -> float:
    """ln c, where the run at n images is as good as the baseline at c·n, over the second half of the slower one.

    The slower one is that whose figures over its second half are the larger, and is laid onto the whole curve of the
    other, which has been there before. So that curve is never read beyond its end, and exchanging the two changes the
    sign alone. What lies before its first snapshot is read off its first piece, run on; a curve that is worse at its
    end than the other at its first snapshot counts as if it had just come to that: a bound.
    """
    means = [curve.second_half()[1].mean() for curve in (run, baseline)]
    if means[0] > means[1]:
        return shift_onto(run, baseline)
    return -shift_onto(baseline, run)


def shift_onto(slower: Curve, faster: Curve) -> float:
    """The shift s ≤ 0 of ln images that lays the slower's second half best on the faster: least squares of ln figure.

    The faster curve runs straight between its snapshots, and on at both ends. So the sum of squares is a parabola in s
    between two shifts at which a snapshot of one lies on one of the other: the least of all parabolas is the answer.
    """
    (u, y), (grid, level) = slower.second_half(), faster.logarithms()
    slopes = np.diff(level) / np.diff(grid)
    least = grid[0] - u[-1]
    kinks = (grid[:, None] - u).ravel()
    edges = np.unique(np.concatenate([[least, 0.0], kinks[(kinks > least) & (kinks < 0)]]))
    candidates = []
    for low, high in pairwise(edges):
        middle = (low + high) / 2
        segment = np.clip(np.searchsorted(grid, u + middle) - 1, 0, len(slopes) - 1)
        slope, rest = slopes[segment], level[segment] + slopes[segment] * (u + middle - grid[segment]) - y
        steep = float(slope @ slope)
        shift = float(np.clip(middle - slope @ rest / steep, low, high)) if steep else float(high)
        candidates.append((float(((rest + slope * (shift - middle)) ** 2).sum()), -shift))
    return -min(candidates)[1]


#: A training's figures.
Training = Mapping[str, Any]


def curve_of(training: Training, endpoint: str) -> Curve:
    """An endpoint along a training."""
    return Curve([one["images"] for one in training["path"]], [one[endpoint] for one in training["path"]])


def with_images(training: Training, baseline: Training, endpoint: str) -> dict[str, Any]:
    """The figures with the images for the same of an endpoint among the endpoints, as a multiple of the baseline's."""
    curves = (curve_of(one, endpoint) for one in (training, baseline))
    images = float(np.exp(-log_speed_up(*curves)))
    return {**training, "endpoints": {**training["endpoints"], images_for(endpoint): images}}


def with_all_images(
    trainings: Mapping[str, Mapping[int, Training]], baseline: str, by: Sequence[str]
) -> dict[str, dict[int, dict[str, Any]]]:
    """Trainings, arm → block → figures, with the images that they take for the same of each endpoint."""
    compared = {arm: {block: dict(one) for block, one in own.items()} for arm, own in trainings.items()}
    for endpoint in by:
        for own in compared.values():
            for block, one in own.items():
                own[block] = with_images(one, trainings[baseline][block], endpoint)
    return compared


def piloted(tries: Mapping[str, Training], baseline: Training, endpoint: str) -> dict[str, dict[str, Any]]:
    """Compare all tries of an arm in a block of a pilot with one training of that block.

    What brought a training to half of its images takes twice as many for the same: a doubling is worth a doubling.
    """
    compared, name = {label: with_images(one, baseline, endpoint) for label, one in tries.items()}, images_for(endpoint)
    return {
        label: {**one, "half": {**one["half"], name: 2 * one["endpoints"][name]}} for label, one in compared.items()
    }
