"""What came first among many, tried once more in a few blocks that had no say in that."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import numpy as np

from unequal.artifacts.figures import Figures, read_figures
from unequal.comparison.results import Found, TrainingFigures
from unequal.comparison.settings import Comparison
from unequal.errors import UserError
from unequal.files import read_json
from unequal.settings.strict import Strict, validate
from unequal.settings.values import Name
from unequal.statistics.estimates import BlockModel, Estimate
from unequal.statistics.verdicts import Verdict, judge

#: Whose figures a block of the confirmation has.
FIRST, CONTROL = "first", "control"


class Named(Strict):
    """An arm; beside it, a study has how it was trained, with the try that the pilot has chosen."""

    arm: Name


N = TypeVar("N", bound=Named)


class First(Strict, Generic[N]):
    """results/first.json: both arms. They are trained again as this says, so that no further arm makes that stale."""

    first: N
    control: N

    @property
    def arms(self) -> dict[str, str]:
        """Their names, by place."""
        return {FIRST: self.first.arm, CONTROL: self.control.arm}

    @classmethod
    def load(cls, path: Path) -> Self:
        """From a file. Raises UserError where it is missing or damaged."""
        return validate(cls, read_json(path), path)


class AgainFigures(Figures):
    """results/again/block_<seed>.json: both trainings."""

    first: TrainingFigures
    control: TrainingFigures


def read_again(
    folder: Path, arms: Mapping[str, str], seeds: Sequence[int], plan: Comparison
) -> list[Mapping[str, Any]]:
    """Both trainings of every fresh block, each with what was measured of it.

    Args:
        folder: of the blocks' files.
        arms: of `first` and of `control`.
        seeds: of the blocks.
        plan: whose endpoints they have.

    Raises:
        UserError: a file lacks what is read of it, or tells of another arm than the one that came first.
    """
    read = [(file, read_figures(file, AgainFigures)) for file in (folder / f"block_{seed}.json" for seed in seeds)]
    for file, block in read:
        for place in (FIRST, CONTROL):
            if (told := block[place]["arm"]) != arms[place]:
                raise UserError(f"{file}: tells of '{told}', {place} is '{arms[place]}'; train the block again")
            if gone := [one for one in plan.endpoints if one not in block[place]["endpoints"]]:
                raise UserError(f"{file}: endpoint '{gone[0]}' is missing; measure the trainings again")
    return [block for _, block in read]


def confirmed(found: Found, again: Sequence[Mapping[str, Any]]) -> dict[str, Verdict]:
    """What fresh blocks say of the first arm against the control, by endpoint."""
    pooled, told = found.blocks.pooled_arms, dict[str, Verdict]()
    for endpoint, delta in found.blocks.endpoints.items():
        own = BlockModel(pooled, found.logarithms(endpoint, pooled))
        logs = [[block[place]["endpoints"][endpoint] for place in (FIRST, CONTROL)] for block in again]
        (told[endpoint],) = judge([once_more(own, np.log(logs))], delta)
    return told


def once_more(study: BlockModel, pairs: np.ndarray) -> Estimate:
    """A difference of pairs ln(endpoint) [blocks, 2], arm and control.

    A few blocks tell a difference, but hardly its scatter: that is the study's own, of all pooled arms, where the pairs
    do not scatter more.
    """
    differences = pairs[:, 0] - pairs[:, 1]
    squared = max(2 * study.pooled_variance, float(differences.var(ddof=1))) / len(differences)
    return Estimate(float(differences.mean()), squared**0.5, study.freedom)
