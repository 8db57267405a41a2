"""An arm's gradients during training, and the effect of training it further, over all blocks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.stats import t as student_t

from unequal.artifacts.figures import Figures, read_figures
from unequal.comparison.results import file_of
from unequal.errors import UserError

#: Of two-sided intervals over blocks; and half of one of an estimate with a normal error, in standard errors.
LEVEL, NORMAL = 0.05, 1.96


class Estimate(NamedTuple):
    """A mean over blocks, its standard error, and the degrees of freedom of that."""

    mean: float
    stderr: float
    freedom: int

    @classmethod
    def of(cls, values: Sequence[float] | np.ndarray) -> Self:
        """From one value a block, two or more."""
        found = np.asarray(values, dtype=float)
        return cls(float(found.mean()), float(found.std(ddof=1) / np.sqrt(len(found))), len(found) - 1)

    @property
    def side(self) -> int:
        """1 or −1 where the 95 % interval (Student's t over blocks) lies above or below 0, else 0."""
        half = float(student_t.ppf(1 - LEVEL / 2, self.freedom)) * self.stderr
        return int(self.mean > half) - int(self.mean < -half)


class GradientFigures(Figures):
    """results/gradients/<arm>/block_<seed>.json."""

    points: list[dict[str, Any]]


class RetrainedFigures(Figures):
    """results/retrained/<arm>/block_<seed>.json."""

    ways: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Gradients:
    """Figures of an arm, [blocks][points]."""

    arm: str
    points: Sequence[Sequence[Mapping[str, Any]]]

    @property
    def images(self) -> list[int]:
        """Seen at each point."""
        return [one["images"] for one in self.points[0]]

    def values(self, point: int, metric: str, figure: str) -> np.ndarray:
        """A figure or a table of them, one a block; NaN where it was lost in noise."""
        return np.array([block[point][metric][figure]["value"] for block in self.points], dtype=float)

    def noise_scale(self, point: int, metric: str) -> tuple[float, float] | None:
        """Geometric mean over blocks and the factor of its standard error; None where a block's is lost in noise."""
        values = self.values(point, metric, "noise_scale")
        if not np.isfinite(values).all():
            return None
        found = Estimate.of(np.log(values))
        return float(np.exp(found.mean)), float(np.exp(found.stderr))

    def share(self, point: int, metric: str, figure: str) -> Estimate:
        """Change of a figure that is a share of 1."""
        return Estimate.of(self.values(point, metric, figure))

    def beyond(self, point: int, metric: str, side: int) -> list[int]:
        """Pairs of slots whose cosine lies below (side −1) or above 0 by its own 95 % interval, one count a block."""
        counts = []
        for block in self.points:
            cosines = block[point][metric]["cosines"]
            value, error = (np.array(cosines[what], dtype=float) for what in ("value", "stderr"))
            lower = np.tril(np.ones(value.shape, bool), -1)
            counts.append(int((side * value[lower] > NORMAL * error[lower]).sum()))
        return counts

    def cosines(self, point: int, metric: str) -> dict[tuple[int, int], Estimate]:
        """Pair of slots, counted from 0 → cosine of their mean gradients; those that a block has lost are left out."""
        tables = self.values(point, metric, "cosines")
        pairs = [(i, j) for i in range(tables.shape[1]) for j in range(i)]
        known = [pair for pair in pairs if np.isfinite(tables[:, *pair]).all()]
        return {pair: Estimate.of(tables[:, *pair]) for pair in known}


@dataclass(frozen=True)
class Retrained:
    """An arm's end, trained on: [blocks] of way → changes of the losses of all slots."""

    arm: str
    blocks: Sequence[Mapping[str, Mapping[str, Any]]]

    @property
    def ways(self) -> list[str]:
        """In their order."""
        return list(self.blocks[0])

    def slots(self, way: str) -> list[Estimate]:
        """Relative change of the loss of every slot."""
        return [Estimate.of(column) for column in np.transpose([block[way]["slots"] for block in self.blocks])]

    def whole(self, way: str) -> Estimate:
        """Change of the loss over all timesteps."""
        return Estimate.of([block[way]["all"] for block in self.blocks])


def read_gradients(folder: Path, arms: Sequence[str], blocks: Sequence[int]) -> list[Gradients]:
    """Read the figures of some arms. Raises UserError where a file is missing, or points differ between blocks."""
    found = []
    for arm in arms:
        files = [folder / file_of(arm, block) for block in blocks]
        points = [read_figures(file, GradientFigures)["points"] for file in files]
        for file, one in zip(files, points, strict=True):
            if [each["images"] for each in one] != [each["images"] for each in points[0]]:
                raise UserError(f"{file}: measured at other points than {files[0]}; measure one of them again")
        found.append(Gradients(arm, points))
    return found


def read_retrained(folder: Path, arms: Sequence[str], ways: Sequence[str], blocks: Sequence[int]) -> list[Retrained]:
    """Read the changes of some arms. Raises UserError where a file is missing, or lacks a way."""
    found = []
    for arm in arms:
        files = [folder / file_of(arm, block) for block in blocks]
        read = [read_figures(file, RetrainedFigures)["ways"] for file in files]
        for file, one in zip(files, read, strict=True):
            if gone := [way for way in ways if way not in one]:
                raise UserError(f"{file}: '{gone[0]}' is missing; train further again")
        found.append(Retrained(arm, [{way: one[way] for way in ways} for one in read]))
    return found
