"""Time to quality: after how many images a recipe reaches the FID with which its baseline ends."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from unequal.reporting.verdicts import Evidence, paired


class Trial(NamedTuple):
    """FID along one training: images seen, rising, and the FID there."""

    images: tuple[int, ...]
    fid: tuple[float, ...]

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> "Trial":
        """From the content of results/trials/<name>.json."""
        points = facts["points"]
        return cls(tuple(one["images_seen"] for one in points), tuple(one["fid_mean"] for one in points))


@dataclass(frozen=True)
class Comparison:
    """A recipe against its baseline at one batch, over training seeds that both share.

    Attributes:
        fids, baseline_fids: final FID of each seed.
        images: images of a whole training.
        reached: images after which each seed met the baseline's final FID, None where it never did.
    """

    recipe: str
    baseline: str
    batch: str
    images: int
    fids: tuple[float, ...]
    baseline_fids: tuple[float, ...]
    reached: tuple[float | None, ...]

    @property
    def speed_ups(self) -> list[float]:
        """Images of the baseline over images of the recipe for the same FID, for the seeds that reached it."""
        return [self.images / count for count in self.reached if count is not None]

    @property
    def evidence(self) -> Evidence:
        """By how much the recipe's final FID lies below the baseline's, paired by seed, at equal images."""
        return paired([theirs - ours for ours, theirs in zip(self.fids, self.baseline_fids, strict=True)])


def images_to_reach(trial: Trial, target: float) -> float | None:
    """Images after which FID first falls to a target, None where it never does.

    Between two points log FID is taken as linear in log images; before the first nothing is known,
    so that its own images are the answer there.
    """
    images, fid = np.log(trial.images), np.log(trial.fid)
    goal = np.log(target)
    below = np.flatnonzero(fid <= goal)
    if not len(below):
        return None
    first = int(below[0])
    if first == 0:
        return float(trial.images[0])
    share = (fid[first - 1] - goal) / (fid[first - 1] - fid[first])
    return float(np.exp(images[first - 1] + share * (images[first] - images[first - 1])))


def compare(recipe: str, baseline: str, batch: str, trials: Mapping[tuple[str, str], Sequence[Trial]]) -> Comparison:
    """A recipe against its baseline; `trials` holds those of (recipe, batch), in the order of seeds."""
    ours, theirs = trials[recipe, batch], trials[baseline, batch]
    target = float(np.mean([one.fid[-1] for one in theirs]))
    return Comparison(
        recipe,
        baseline,
        batch,
        theirs[0].images[-1],
        tuple(one.fid[-1] for one in ours),
        tuple(one.fid[-1] for one in theirs),
        tuple(images_to_reach(one, target) for one in ours),
    )
