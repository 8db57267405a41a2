"""Figures of a comparison's trainings, read from results/endpoints: no model is needed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from unequal.artifacts.figures import Figures, read_figures
from unequal.comparison.settings import BINS, LEAST, Comparison
from unequal.comparison.speed import with_all_images
from unequal.errors import UserError
from unequal.report.drawing import log_bins

#: Where the endpoints of every training lie, a folder an arm, and the name of a base's folder.
FOLDER, BASE = "results/endpoints", "base"


class Point(Figures):
    """A snapshot of a training, or its end: images seen, endpoints, losses over bins of timesteps.

    FID is of half of the samples.
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
    made_by: str
    endpoints: dict[str, PositiveFloat]
    scores: dict[str, float]
    costs: CostFigures
    curve: CurveFigures
    conditions: dict[str, Any]
    path: list[Point] | None = None


def file_of(arm: str, block: int) -> str:
    """The file of a training, below the folder of all."""
    return f"{arm}/block_{block}.json"


@dataclass(frozen=True)
class ComparisonResults:
    """Endpoints of a study's trainings.

    Attributes:
        plan: arms, blocks and endpoints.
        trainings: of the arms in complete blocks, arm → block → figures.
        bases: of the same blocks, as far as they were measured.
        missing: incomplete block → why it is.
    """

    plan: Comparison
    trainings: Mapping[str, Mapping[int, Mapping[str, Any]]]
    bases: Mapping[int, Mapping[str, Any]]
    missing: Mapping[int, str]

    @property
    def complete(self) -> tuple[int, ...]:
        """Seeds of the blocks that are judged."""
        return tuple(seed for seed in self.plan.all_seeds if seed not in self.missing)

    @property
    def any_training(self) -> Mapping[str, Any]:
        """One of the trainings, for what all have in common."""
        return self.trainings[self.plan.repeated.control][self.complete[0]]

    def logarithms(self, endpoint: str, arms: Sequence[str]) -> np.ndarray:
        """ln(endpoint) of arms, [arms, complete blocks]."""
        return np.log([[self.trainings[arm][block]["endpoints"][endpoint] for block in self.complete] for arm in arms])

    @property
    def timesteps(self) -> int:
        """T."""
        return int(self.any_training["curve"]["timesteps"][0])

    def curves(self, arm: str) -> np.ndarray:
        """Losses over bins of timesteps as they were measured, [complete blocks, bins]."""
        return np.array([self.trainings[arm][block]["curve"]["loss"] for block in self.complete])

    @property
    def bins(self) -> np.ndarray:
        """First timestep of each bin of a reported curve: single timesteps would show the noise of the draws."""
        return np.intersect1d(log_bins(self.timesteps, BINS)[:-1], self.any_training["curve"]["first"])

    def binned_curves(self, arm: str) -> np.ndarray:
        """Losses over those bins, [complete blocks, bins]."""
        measured, first = self.curves(arm), np.array(self.any_training["curve"]["first"])
        if len(first) == len(self.bins):
            return measured
        lengths, places = np.diff([*first, self.timesteps]), np.searchsorted(first, self.bins)
        sums: np.ndarray = np.add.reduceat(measured * lengths, places, axis=1)
        return sums / np.add.reduceat(lengths, places)


def read_results(folder: Path, plan: Comparison) -> ComparisonResults:
    """Read the trainings of all blocks that were measured.

    Raises:
        UserError: a file that lacks a figure or is of another training, an endpoint that was not
            measured, at the end or along the training where speed is asked for, or fewer than two complete blocks.
    """
    files = {(arm, block): folder / file_of(arm, block) for arm in (BASE, *plan.arms.all) for block in plan.all_seeds}
    read = {key: read_figures(file, TrainingFigures) for key, file in files.items() if file.exists()}
    for key, figures in read.items():
        refuse_other(files[key], figures, *key)
        if unknown := [one for one in plan.endpoints if one not in figures["endpoints"]]:
            raise UserError(f"{files[key]}: endpoint '{unknown[0]}' is missing; measure the training again")
    missing = {block: why for block in plan.all_seeds if (why := lack(plan, block, read))}
    if len(plan.all_seeds) - len(missing) < LEAST:
        raise UserError(f"{folder}: fewer than {LEAST} complete blocks; {missing_clause(missing)}")
    complete = [block for block in plan.all_seeds if block not in missing]
    trainings = {arm: {block: read[arm, block] for block in complete} for arm in plan.arms.all}
    for arm, own in trainings.items():
        refuse_other_settings(folder, arm, own)
    refuse_other_bins(folder, trainings)
    bases = {block: read[BASE, block] for block in complete if (BASE, block) in read}
    refuse_other_settings(folder, BASE, bases)
    if plan.speed is not None:
        trainings = with_all_images(trainings, plan.speed.baseline, plan.speed.by)
    return ComparisonResults(plan, trainings, bases, missing)


def refuse_other(file: Path, figures: Mapping[str, Any], arm: str, block: int) -> None:
    """Raise UserError where a file is of another training than its name says, so that one would count as two."""
    if (figures["arm"], figures["block"]) != (arm, block):
        raise UserError(
            f"{file}: holds '{figures['arm']}' in block {figures['block']}; measure '{arm}' in block {block} again"
        )


def lack(plan: Comparison, block: int, read: Mapping[tuple[str, int], Mapping[str, Any]]) -> str:
    """Why a block cannot be judged; empty where it can."""
    if gone := [arm for arm in plan.arms.all if (arm, block) not in read]:
        return f"without {', '.join(gone)}"
    conditions = {arm: read[arm, block]["conditions"] for arm in plan.arms.all}
    first = conditions[plan.arms.all[0]]
    other = {key for one in conditions.values() for key in one.keys() | first.keys() if one.get(key) != first.get(key)}
    return f"its arms differ in {', '.join(sorted(other))}" if other else ""


def refuse_other_bins(folder: Path, trainings: Mapping[str, Mapping[int, Mapping[str, Any]]]) -> None:
    """Raise UserError where the curves of two trainings are not over the same bins, or one is not whole."""
    curves = {(arm, block): one["curve"] for arm, own in trainings.items() for block, one in own.items()}
    first = next(iter(curves.values()))
    for key, one in curves.items():
        if one["first"] != first["first"] or len(one["loss"]) != len(first["first"]):
            raise UserError(f"{folder / file_of(*key)}: a curve over other bins of timesteps; measure it again")


def refuse_other_settings(folder: Path, arm: str, trainings: Mapping[int, Mapping[str, Any]]) -> None:
    """Raise UserError where the trainings of an arm are not of the same settings in all blocks."""
    first = next(iter(trainings), 0)
    for block, one in trainings.items():
        if one["made_by"] != trainings[first]["made_by"]:
            raise UserError(
                f"{folder}: '{arm}' was trained by other settings in block {block} than in block {first}; "
                "train one of them again, or leave it out of the blocks"
            )


def missing_clause(missing: Mapping[int, str]) -> str:
    """The incomplete blocks, as a clause."""
    return "; ".join(f"block {block}: {why}" for block, why in missing.items())
