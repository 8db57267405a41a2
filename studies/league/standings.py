"""How the arms of a league stand, and whether what came first holds on fresh seeds."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from studies.blocks.confirming import once_more
from studies.blocks.findings import Found, TrainingFigures
from studies.blocks.settings import Blocks as Study
from unequal.artifacts.figures import Figures, read_figures
from unequal.errors import UserError
from unequal.evidence.blocks import Blocks
from unequal.evidence.words import Finding, findings
from unequal.files import read_json
from unequal.settings.names import Name
from unequal.settings.recipe import Recipe
from unequal.settings.strict import Strict, validate

#: Whose figures a block of the confirmation has.
FIRST, CONTROL = "first", "control"


class Named(Strict):
    """An arm and the recipe that it was trained by, with the try that the pilot has chosen."""

    arm: Name
    recipe: Recipe


class First(Strict):
    """results/first.json: both arms. They are trained again as this says, so that no further arm makes that stale."""

    first: Named
    control: Named

    @classmethod
    def load(cls, path: Path) -> Self:
        """From a file. Raises UserError where it is missing or damaged."""
        return validate(cls, read_json(path), path)


class AgainFigures(Figures):
    """results/again/block_<seed>.json: both trainings."""

    first: TrainingFigures
    control: TrainingFigures


def standings(found: Found) -> list[tuple[str, float]]:
    """Arms with the geometric mean of their first endpoint, the best first; the repeated control is left out."""
    endpoint = next(iter(found.blocks.endpoints))
    arms = [arm for arm in found.blocks.arms if arm != found.blocks.repeated.arm]
    means = np.exp(found.logarithms(endpoint, arms).mean(1)).tolist()
    return sorted(zip(arms, means, strict=True), key=lambda one: one[1])


def first(found: Found) -> str:
    """The arm that stands first but for the control, which is trained again anyway."""
    return next(arm for arm, _ in standings(found) if arm != found.blocks.control)


def read_again(folder: Path, named: Path, seeds: Sequence[int], plan: Study) -> list[Mapping[str, Any]]:
    """Both trainings of every fresh block, each with what was measured of it.

    Raises UserError where a file lacks what is read of it, or tells of another arm than the one that came first.
    """
    arms = First.load(named)
    read = [(file, read_figures(file, AgainFigures)) for file in (folder / f"block_{seed}.json" for seed in seeds)]
    for file, block in read:
        for place in (FIRST, CONTROL):
            told, right = block[place]["arm"], getattr(arms, place).arm
            if told != right:
                raise UserError(f"{file}: tells of '{told}', {place} is '{right}'; train the block again")
            if gone := [one for one in plan.endpoints if one not in block[place]["endpoints"]]:
                raise UserError(f"{file}: endpoint '{gone[0]}' is missing; measure the trainings again")
    return [block for _, block in read]


def confirmed(found: Found, again: Sequence[Mapping[str, Any]]) -> dict[str, Finding]:
    """What fresh blocks say of the first arm against the control, by endpoint."""
    told: dict[str, Finding] = {}
    for endpoint, delta in found.blocks.endpoints.items():
        logs = [[block[place]["endpoints"][endpoint] for place in (FIRST, CONTROL)] for block in again]
        (told[endpoint],) = findings([once_more(league(found, endpoint), np.log(logs))], delta)
    return told


def league(found: Found, endpoint: str) -> Blocks:
    """The league's own trainings, by whose scatter fresh ones are judged."""
    pooled = found.blocks.pooled_arms
    return Blocks(pooled, found.logarithms(endpoint, pooled))
