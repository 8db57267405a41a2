"""How the arms of a league stand, and which came first."""

from pathlib import Path
from typing import Self

import numpy as np

from studies.blocks.confirming import CONTROL, FIRST
from studies.blocks.findings import Found
from unequal.files import read_json
from unequal.settings.names import Name
from unequal.settings.recipe import Recipe
from unequal.settings.strict import Strict, validate


class Named(Strict):
    """An arm and the recipe that it was trained by, with the try that the pilot has chosen."""

    arm: Name
    recipe: Recipe


class First(Strict):
    """results/first.json: both arms. They are trained again as this says, so that no further arm makes that stale."""

    first: Named
    control: Named

    @property
    def arms(self) -> dict[str, str]:
        """Their names, by place."""
        return {FIRST: self.first.arm, CONTROL: self.control.arm}

    @classmethod
    def load(cls, path: Path) -> Self:
        """From a file. Raises UserError where it is missing or damaged."""
        return validate(cls, read_json(path), path)


def standings(found: Found) -> list[tuple[str, float]]:
    """Arms with the geometric mean of their first endpoint, the best first; the repeated control is left out."""
    endpoint = next(iter(found.blocks.endpoints))
    arms = [arm for arm in found.blocks.arms if arm != found.blocks.repeated.arm]
    means = np.exp(found.logarithms(endpoint, arms).mean(1)).tolist()
    return sorted(zip(arms, means, strict=True), key=lambda one: one[1])


def first(found: Found) -> str:
    """The arm that stands first but for the control, which is trained again anyway."""
    return next(arm for arm, _ in standings(found) if arm != found.blocks.control)
