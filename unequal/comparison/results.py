"""Figures of a comparison's trainings, read from results/endpoints: no model is needed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from unequal.comparison.settings import Comparison
from unequal.comparison.speed import with_all_images
from unequal.errors import UserError
from unequal.report.figures import Figures, read_figures


class Point(Figures):
    """A snapshot of a training, or its final model: images seen, endpoints, losses over bins of timesteps.

    FID is computed from half of the samples.
    """

    images: PositiveInt
    fid: PositiveFloat
    curve: list[float]


class CostFigures(Figures):
    """Costs of a training and of its samples."""

    images: NonNegativeInt
    training_flops: NonNegativeFloat
    sampling_flops: NonNegativeFloat
    parameters: NonNegativeFloat
    parameters_per_step: NonNegativeFloat


class CurveFigures(Figures):
    """Losses over bins of timesteps, and each bin's first timestep."""

    timesteps: tuple[PositiveInt]
    first: list[NonNegativeInt] = Field(min_length=1)
    loss: list[PositiveFloat] = Field(min_length=1)


class TrainingFigures(Figures):
    """results/endpoints/<arm>/block_<seed>.json."""

    arm: str
    block: int
    endpoints: dict[str, PositiveFloat]
    scores: dict[str, float]
    costs: CostFigures
    curve: CurveFigures
    conditions: dict[str, Any]
    path: list[Point] | None = None


def file_of(arm: str, block: int) -> str:
    """File of a training, relative to the folder of all trainings."""
    return f"{arm}/block_{block}.json"


@dataclass(frozen=True)
class ComparisonResults:
    """Endpoints of a study's trainings.

    Attributes:
        plan: variants, blocks and endpoints.
        trainings: variant → block → figures.
        bases: block → figures; empty where no variant continues a base.
    """

    plan: Comparison
    trainings: Mapping[str, Mapping[int, Mapping[str, Any]]]
    bases: Mapping[int, Mapping[str, Any]]

    @property
    def any_training(self) -> Mapping[str, Any]:
        """Any one training, to read what all trainings have in common."""
        return self.trainings[self.plan.repeated.control][self.plan.seeds[0]]

    def logarithms(self, endpoint: str, arms: Sequence[str]) -> np.ndarray:
        """ln(endpoint) of variants, [variants, blocks]."""
        return np.log(
            [[self.trainings[arm][block]["endpoints"][endpoint] for block in self.plan.seeds] for arm in arms]
        )

    @property
    def timesteps(self) -> int:
        """Number of timesteps T."""
        return int(self.any_training["curve"]["timesteps"][0])

    @property
    def bins(self) -> np.ndarray:
        """First timestep of each bin of the curves, [bins]."""
        return np.array(self.any_training["curve"]["first"])

    def curves(self, arm: str) -> np.ndarray:
        """Losses of a variant over these bins, [blocks, bins]."""
        return np.array([self.trainings[arm][block]["curve"]["loss"] for block in self.plan.seeds])


def read_results(folder: Path, plan: Comparison) -> ComparisonResults:
    """Read the trainings of all blocks.

    Raises:
        UserError: a file is missing or lacks a figure, or variants of a block were measured under unequal conditions.
    """

    def read(arm: str) -> dict[int, dict[str, Any]]:
        return {block: read_figures(folder / file_of(arm, block), TrainingFigures) for block in plan.seeds}

    trainings: dict[str, dict[int, dict[str, Any]]] = {arm: read(arm) for arm in plan.arms.all}
    for block in plan.seeds:
        first, *others = (own[block]["conditions"] for own in trainings.values())
        if unlike := {key for one in others for key in first.keys() | one.keys() if one.get(key) != first.get(key)}:
            raise UserError(
                f"{folder}: block {block}: its variants differ in {', '.join(sorted(unlike))}; measure it again"
            )
    if plan.speed is not None:
        trainings = with_all_images(trainings, plan.speed.baseline, plan.speed.by)
    return ComparisonResults(plan, trainings, read(plan.arms.bases[0]) if plan.arms.bases else {})
