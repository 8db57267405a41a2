"""Small batches: what the study has found, and its tables."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from studies.grid.settings import parsed_batch
from unequal.reporting.tables import plus_minus
from unequal.reporting.verdicts import Evidence, paired
from unequal.timesteps.partition import Partition

#: A sampler has the gradient of uniform timesteps where its bias is below this share of that gradient's square.
UNBIASED = 1e-6


@dataclass(frozen=True)
class BatchFindings:
    """What the study has found.

    Attributes:
        fids: (recipe, batch) → final FID of every training seed, in the order of seeds.
        steps: (recipe, batch) → optimizer steps.
        baseline: the recipe that all are held against.
        recipes, batches: of the grid.
        gradients: the content of results/gradients/<model>.json.
        images: that every training saw.
    """

    fids: dict[tuple[str, str], tuple[float, ...]]
    steps: dict[tuple[str, str], int]
    baseline: str
    recipes: tuple[str, ...]
    batches: tuple[str, ...]
    gradients: dict[str, Any]
    images: int

    @property
    def slots(self) -> Partition:
        """Whose gradients were measured."""
        return Partition(self.gradients["slots"], "slots")

    def gain(self, better: tuple[str, str], worse: tuple[str, str]) -> Evidence:
        """By how much the FID of one lies below that of the other, in pairs of training seeds."""
        return paired([theirs - ours for ours, theirs in zip(self.fids[better], self.fids[worse], strict=True)])

    def mean(self, recipe: str, batch: str) -> float:
        """Mean final FID over training seeds."""
        return float(np.mean(self.fids[recipe, batch]))

    @property
    def baseline_batches(self) -> list[str]:
        """All batches of the baseline, by the images of a step, whole ones before accumulated ones."""
        return sorted((batch for recipe, batch in self.fids if recipe == self.baseline), key=order)

    @property
    def others(self) -> list[str]:
        """The recipes that are held against the baseline."""
        return [recipe for recipe in self.recipes if recipe != self.baseline]

    def row(self, recipe: str, batch: int | None = None) -> dict[str, float]:
        """What was measured of a sampler's gradients at so many images a step; None: at the fewest."""
        rows = [one for one in self.gradients["batches"] if one["sampler"] == recipe]
        found: dict[str, float] = next(one for one in rows if batch is None or one["batch"] == batch)
        return found

    def keeps_the_gradient(self, recipe: str) -> bool:
        """Whether a sampler's expected gradient is that of uniform timesteps."""
        uniform = self.row(self.baseline)["mean_square"]
        return abs(self.row(recipe)["bias"]) <= UNBIASED * max(uniform, np.finfo(float).tiny)

    @property
    def comparable(self) -> list[str]:
        """Recipes whose gradients differ in their variance alone, and whose gradients were measured."""
        measured = {one["sampler"] for one in self.gradients["batches"]}
        return [one for one in self.recipes if one in measured and self.keeps_the_gradient(one)]


def order(batch: str) -> tuple[int, int]:
    """Batches by the images of a step, then by the parts that they come in."""
    size, parts = parsed_batch(batch)
    return size * parts, parts


def whole(batch: str) -> str:
    """The batch that goes through the network at once and has as many images a step: 8x4 → 32x1."""
    size, parts = parsed_batch(batch)
    return f"{size * parts}x1"


def fid(found: BatchFindings, recipe: str, batch: str) -> str:
    """Mean ± standard deviation over training seeds."""
    values = found.fids[recipe, batch]
    return plus_minus(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None)
