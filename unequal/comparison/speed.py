"""Speed-up of one training over another, measured by a shift of its curve."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from unequal.comparison.settings import images_for


class Curve(NamedTuple):
    """Quality over a training: images seen at its snapshots, ascending, and a figure above 0, such as FID, at each."""

    images: Sequence[int]
    figures: Sequence[float]

    def logarithms(self) -> tuple[np.ndarray, np.ndarray]:
        """ln images and ln figures at the snapshots."""
        return np.log(self.images), np.log(self.figures)

    def second_half(self) -> tuple[np.ndarray, np.ndarray]:
        """ln images and ln figures at snapshots in the second half of the training."""
        images, figures = self.logarithms()
        late = images >= images[-1] - np.log(2)
        return images[late], figures[late]


def log_speed_up(run: Curve, baseline: Curve) -> float:
    """Estimate ln c, where the run at n images is as good as the baseline at c·n images.

    The slower of the two has the larger mean of ln figures over its second half. This half is fitted to the whole curve
    of the faster one, which reached these figures earlier. The faster curve is therefore never read beyond its end, and
    exchanging run and baseline only changes the sign. Before its first snapshot, its first segment is extrapolated. If
    the slower curve is worse at its end than the faster at its first snapshot, the result is a bound: the end of one
    counts as equal to that snapshot of the other.
    """
    means = [curve.second_half()[1].mean() for curve in (run, baseline)]
    if means[0] > means[1]:
        return shift_onto(run, baseline)
    return -shift_onto(baseline, run)


def shift_onto(slower: Curve, faster: Curve) -> float:
    """Shift s ≤ 0 of ln images that best fits the slower's second half to the faster: least squares in ln figure.

    The faster curve is linear between its snapshots and extrapolated at both ends. The sum of squares is therefore a
    parabola in s between shifts at which snapshots of both curves coincide; the result minimises over all parabolas.
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


#: Figures of a training.
Training = Mapping[str, Any]


def curve_of(training: Training, endpoint: str) -> Curve:
    """Curve of an endpoint along a training."""
    return Curve([one["images"] for one in training["path"]], [one[endpoint] for one in training["path"]])


def with_images(training: Training, baseline: Training, endpoint: str) -> dict[str, Any]:
    """Add the endpoint "images for an equal value of `endpoint`", as a multiple of the baseline's, to a training."""
    curves = (curve_of(one, endpoint) for one in (training, baseline))
    images = float(np.exp(-log_speed_up(*curves)))
    return {**training, "endpoints": {**training["endpoints"], images_for(endpoint): images}}


def with_all_images(
    trainings: Mapping[str, Mapping[int, Training]], baseline: str, by: Sequence[str]
) -> dict[str, dict[int, dict[str, Any]]]:
    """Add the images for equal values of each endpoint to all trainings, variant → block → figures."""
    compared = {arm: {block: dict(one) for block, one in own.items()} for arm, own in trainings.items()}
    for endpoint in by:
        for own in compared.values():
            for block, one in own.items():
                own[block] = with_images(one, trainings[baseline][block], endpoint)
    return compared


def piloted(tries: Mapping[str, Training], baseline: Training, endpoint: str) -> dict[str, dict[str, Any]]:
    """Add the images for equal values to all tries of a variant in a block of a pilot, against one training there.

    At half of a training, its images for equal values are twice those at its end: a doubling is worth a doubling.
    """
    compared, name = {label: with_images(one, baseline, endpoint) for label, one in tries.items()}, images_for(endpoint)
    return {
        label: {**one, "half": {**one["half"], name: 2 * one["endpoints"][name]}} for label, one in compared.items()
    }
