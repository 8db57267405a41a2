"""Figures in `results/` that a report reads; each reader checks the fields that it uses, and ignores the rest."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from pydantic import ConfigDict, Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from unequal.errors import UserError
from unequal.models.spec import ModelSpec
from unequal.runtime.files import read_json, require
from unequal.settings.strict import Strict, validate


class Figures(Strict):
    """Some of the figures of a file."""

    model_config = ConfigDict(extra="allow")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file. Raises UserError where it is missing, or lacks a field."""
        return validate(cls, read_json(path), path)


class SamplingFigures(Figures):
    """How the images of a score were sampled."""

    steps: int | tuple[int, ...]
    spacing: str
    solver: str = "ddim"
    eta: float
    clip: bool


class SeedScore(Figures):
    """Score of the samples of one sampling seed."""

    fid: float


class Score(Figures):
    """results/fid/<model>.json. FLOPs are multiply–accumulates; `…_sd` is over sampling seeds."""

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
    scores: tuple[SeedScore, ...] = Field(min_length=1)
    samples_per_seed: NonNegativeInt
    sampling: SamplingFigures
    training_seed: NonNegativeInt
    extractor: str
    extractor_accuracy: float | None = None
    features: NonNegativeInt
    reference: str
    singular_covariance: bool
    device: str
    fp32: str

    @property
    def fids(self) -> list[float]:
        """FID at each sampling seed."""
        return [one.fid for one in self.scores]

    def spread(self, score: str) -> float | None:
        """Standard deviation of a score; None: unknown, since there is one seed."""
        return getattr(self, f"{score}_sd", None) if len(self.sampling_seeds) > 1 else None


class ScaleEnd(Figures):
    """Score of images that no model samples: an end of the scale."""

    fid: float
    kid: float
    fid_half: float
    precision: float
    recall: float


class References(Figures):
    """results/fid/reference.json."""

    real_against_real: ScaleEnd
    noise_against_real: ScaleEnd
    real_sets: str


class Trained(Figures):
    """results/metrics/train_<model>.json: its images, those of the model that it resumed from, and how it was computed.

    A model that was trained elsewhere has no precision.
    """

    spec: ModelSpec | None = None
    images_seen: NonNegativeInt
    inherited_images: NonNegativeInt
    precision: str | None = None
    compiled: bool = False


def computation(figures: Mapping[str, Any]) -> str:
    """Say in what precision a model was trained, and whether it was compiled; empty: it was trained elsewhere."""
    precision = figures.get("precision")
    return "" if precision is None else f"{precision}{', compiled' if figures['compiled'] else ''}"


class Requests(Figures):
    """Requests of a search to a language model."""

    requests: PositiveInt


class Pruning(Figures):
    """results/metrics/prune_expert_group_<number>.json; losses are of a search."""

    share_of_base: float = Field(gt=0)
    candidates: PositiveInt | None = None
    loss: float = 0.0
    fresh_loss: float = 0.0
    control_fresh_loss: PositiveFloat | None = None
    language_model: Requests | None = None


#: Columns of results/training/<model>.csv that make a curve.
CURVE_COLUMNS = ("images_seen", "loss", "compute_seconds")


class TrainingCurve(NamedTuple):
    """Images seen at each line of a training's log, rising, the loss there, and seconds since the line before.

    All are [n]; n may be 0. Seconds are of processors, or of GPUs.
    """

    images: np.ndarray
    losses: np.ndarray
    seconds: np.ndarray


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
    images, losses, seconds = np.array(rows).reshape(-1, len(CURVE_COLUMNS)).T
    if not (np.isfinite(rows).all() and (losses > 0).all() and (seconds >= 0).all() and (np.diff(images) > 0).all()):
        raise UserError(f"{path}: no training curve; images seen rise, losses are above 0")
    return TrainingCurve(images, losses, seconds)
