"""Figures in `results/` that a report reads; each reader checks the fields that it uses, and ignores the rest."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import ConfigDict, Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from unequal.errors import UserError
from unequal.runtime.files import read_json, require
from unequal.settings.strict import Strict, validate


class Figures(Strict):
    """Some of the figures of a file."""

    model_config = ConfigDict(extra="allow")


class SamplingFigures(Figures):
    """How the images of a score were sampled."""

    steps: int | tuple[int, ...]
    spacing: str
    eta: float
    clip: bool


class ScoreFigures(Figures):
    """results/fid/<variant>.json."""

    fid_mean: float
    fid_sd: float | None
    fid_half_mean: float
    kid_mean: float
    kid_sd: float | None
    precision_mean: float
    precision_sd: float | None
    recall_mean: float
    recall_sd: float | None
    images_seen: NonNegativeInt
    training_flops: NonNegativeInt
    sampling_flops_per_image: NonNegativeInt
    parameters: NonNegativeInt
    parameters_per_step: NonNegativeFloat
    sampling_steps_per_expert: tuple[NonNegativeInt, ...] = Field(min_length=1)
    sampling_seeds: tuple[NonNegativeInt, ...] = Field(min_length=1)
    samples_per_seed: NonNegativeInt
    sampling: SamplingFigures
    training_seed: NonNegativeInt
    extractor: str
    features: NonNegativeInt
    reference: str
    singular_covariance: bool


class Distance(Figures):
    """Between two sets of images."""

    fid: float
    kid: float


class ScaleEnd(Distance):
    """One of the two ends of the scale, with all columns of the table of scores."""

    fid_half: float
    precision: float
    recall: float


class SeedScore(Figures):
    """Score of the samples of one sampling seed."""

    fid: float


class SeedFigures(Figures):
    """results/fid/<variant>.json: the scores at each sampling seed."""

    sampling_seeds: tuple[NonNegativeInt, ...]
    scores: tuple[SeedScore, ...] = Field(min_length=1)


class SeenFigures(Figures):
    """Images that a model was trained with, and those of the model that it resumed from."""

    images_seen: NonNegativeInt
    inherited_images: NonNegativeInt


class ComputationFigures(Figures):
    """How a training was computed; nothing of a model that was trained elsewhere."""

    precision: str | None = None
    compiled: bool = False


def computation(figures: Mapping[str, Any]) -> str:
    """Say in what precision a model was trained, and whether it was compiled; empty: it was trained elsewhere."""
    precision = figures.get("precision")
    return "" if precision is None else f"{precision}{', compiled' if figures['compiled'] else ''}"


class ReferenceFigures(Figures):
    """results/fid/reference.json."""

    real_against_real: ScaleEnd
    noise_against_real: ScaleEnd
    real_sets: str


class PruningFigures(Figures):
    """results/metrics/prune_expert_group_<number>.json."""

    share_of_base: float = Field(gt=0)


class SearchFigures(PruningFigures):
    """Figures of a group that was pruned by a search."""

    candidates: PositiveInt
    loss: float
    fresh_loss: float
    control_fresh_loss: PositiveFloat | None = None
    language_model: "AskingFigures | None" = None


class AskingFigures(Figures):
    """Requests of a search to a language model, and means a round."""

    requests: PositiveInt
    seconds_a_round: float
    prompt_tokens_a_round: float | None
    completion_tokens_a_round: float | None
    usd_a_round: float | None


def read_figures(path: Path, kind: type[Figures]) -> dict[str, Any]:
    """Read the figures of a file, unchanged. Raises UserError where it is missing, or lacks a field that is used."""
    figures: dict[str, Any] = read_json(path)
    validate(kind, figures, path)
    return figures


#: Columns of results/training/<model>.csv that make a curve.
CURVE_COLUMNS = ("images_seen", "loss", "images_per_second")


class TrainingCurve(NamedTuple):
    """Images seen at each line of a training's log, rising, the loss there, and images a second since the line before.

    All are [n]; n may be 0.
    """

    images: np.ndarray
    losses: np.ndarray
    speeds: np.ndarray

    @property
    def seconds(self) -> float:
        """Time that the logged images took; pauses between a stop and the same command do not count."""
        return float((np.diff(self.images, prepend=0) / self.speeds).sum())


def read_curve(path: Path) -> TrainingCurve:
    """Read the curve of results/training/<model>.csv. Raises UserError where it is missing or no such table."""
    try:
        with require(path).open(encoding="utf-8", newline="") as file:
            table = csv.DictReader(file)
            if not {"images_seen", "loss"} <= set(table.fieldnames or ()):
                raise ValueError("its columns lack images_seen or loss")
            # A training shorter than `training.log_every` leaves one line without a loss.
            rows = [[float(row[name]) for name in CURVE_COLUMNS] for row in table if row["loss"] != ""]
    except (ValueError, KeyError, TypeError, csv.Error) as error:
        raise UserError(f"{path}: no training curve ({error}); make it again") from None
    curve = np.array(rows).reshape(-1, len(CURVE_COLUMNS)).T
    if not (np.isfinite(curve).all() and (curve > 0).all() and (np.diff(curve[0]) > 0).all()):
        raise UserError(f"{path}: no training curve; images seen rise, losses and speeds are finite and above 0")
    return TrainingCurve(*curve)
