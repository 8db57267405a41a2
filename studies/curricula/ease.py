"""Is learning easier near pure noise (paper 2)? By losses over timesteps at the snapshots of trainings.

What is easy depends on what is asked. Of the way from the loss of a network that answers 0, which is 1 for ε, to that
at the end, how much is done at a snapshot? And how many times that of the end is the loss still? Near noise the answer
is nearly the input: most of the way is done at once, while the small rest can fall by a large factor for long. Both are
told.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import t as student_t

from unequal.errors import UserError

#: Loss of ε of a network that answers 0.
OF_NOTHING = 1.0
#: Timesteps are near the data below this share of T, and near noise from one less it on.
NEAR = 0.3
LEVEL = 0.95


@dataclass(frozen=True)
class Ease:
    """A snapshot of trainings of the same settings, against their ends.

    Attributes:
        images: seen at the snapshot.
        middle: of each bin of timesteps, counted from 1, [K].
        done: share of the way from OF_NOTHING to the loss at the end, [trainings, K].
        excess: ln of the loss over that at the end, [trainings, K].
        near_data, near_noise: share of a bin's timesteps among those near data and near noise, [K], of sum 1.
    """

    images: int
    middle: np.ndarray
    done: np.ndarray
    excess: np.ndarray
    near_data: np.ndarray
    near_noise: np.ndarray

    def at_ends(self, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means of a table [trainings, K] near data and near noise, [trainings] each."""
        return table @ self.near_data, table @ self.near_noise

    def lead(self, table: np.ndarray) -> tuple[float, float, float]:
        """By how much a figure is higher near noise than near data: mean and 95 % interval over trainings."""
        data, noise = self.at_ends(table)
        difference = noise - data
        half = student_t.ppf((1 + LEVEL) / 2, len(difference) - 1) * difference.std(ddof=1) / len(difference) ** 0.5
        mean = difference.mean()
        return float(mean), float(mean - half), float(mean + half)


def eases(trainings: Sequence[Mapping[str, Any]]) -> list[Ease]:
    """Every snapshot of trainings that were measured along their paths, the first one first.

    Raises UserError where they have no path, or no bin of timesteps lies at one of the ends.
    """
    if any(len(one.get("path") or ()) < 2 for one in trainings):
        raise UserError("trainings without a path; measure them along their snapshots")
    (timesteps,), first = trainings[0]["curve"]["timesteps"], np.array(trainings[0]["curve"]["first"])
    after = np.append(first[1:], timesteps)
    ends = after <= NEAR * timesteps, first >= (1 - NEAR) * timesteps
    if not all(end.any() for end in ends):
        raise UserError(f"no bin of {timesteps} timesteps lies within {NEAR:g}·T of an end")
    near_data, near_noise = ((after - first) * end / ((after - first) * end).sum() for end in ends)
    losses = np.array([[point["curve"] for point in one["path"]] for one in trainings])
    last = losses[:, -1]
    return [
        Ease(
            point["images"],
            np.sqrt((first + 1.0) * (after + 1.0)),
            (OF_NOTHING - losses[:, i]) / (OF_NOTHING - last),
            np.log(losses[:, i] / last),
            near_data,
            near_noise,
        )
        for i, point in enumerate(trainings[0]["path"][:-1])
    ]
