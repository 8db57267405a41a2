"""All that the consistency study's report is made from, read once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unequal.files import read_json, read_npz

#: A line of a table of pairs.
Row = Mapping[str, Any]

#: Measure → its name.
MEASURES = {"mse": "MSE", "cosine": "cosine", "ssim": "SSIM"}
#: Before and after training.
STATES = ("untrained", "trained")


@dataclass(frozen=True)
class ReplicaFindings:
    """Results of the study.

    Attributes:
        pictures: likeness of final pictures, a row a pair of models.
        predictions: likeness of predicted x0, a row a pair and timestep.
        nearest: mean squared error to the nearest training image, by whose pictures.
        conditions: what all this was measured with.
        landscape: width → curvature at its models, and losses on the lines between them.
        images: model → pictures, uint8 [n, C, H, W].
        known: the training images nearest to the first model's pictures.
    """

    pictures: Sequence[Row]
    predictions: Sequence[Row]
    nearest: dict[str, float]
    conditions: dict[str, Any]
    landscape: dict[str, dict[str, Any]]
    images: dict[str, np.ndarray]
    known: np.ndarray

    def pairs(self, *relations: str) -> list[Row]:
        """Rows of final pictures whose models differ in one of these ways; see `studies.consistency.comparison`."""
        return [row for row in self.pictures if row["relation"] in relations]

    @property
    def trained_pairs(self) -> list[Row]:
        """Rows of any two trained models."""
        return self.pairs("seeds", "widths")

    @property
    def points(self) -> dict[str, dict[str, Any]]:
        """Model → what was measured where it stands before and after training."""
        return {
            f"{width}/seed_{one['seed']}": one for width, found in self.landscape.items() for one in found["models"]
        }

    @property
    def lines(self) -> list[tuple[str, dict[str, Any]]]:
        """(width, losses between two of its models)."""
        return [(width, line) for width, found in self.landscape.items() for line in found["lines"]]


def read_results(find: Callable[[str], Path], widths: Sequence[str], seeds: Sequence[int]) -> ReplicaFindings:
    """Read what the stages before the report have made; `find` turns a path into one that exists.

    Raises:
        UserError: something is missing or damaged.
    """
    folder, landscape = find("artifacts/consistency"), find("artifacts/landscape")
    table = read_json(folder / "table.json")
    names = [f"{width}/seed_{seed}" for width in widths for seed in seeds]
    optimum = ["optimum"] if table["conditions"]["comparison"]["optimum"] else []
    images = read_npz(folder / "pictures.npz", [*names, *optimum, "nearest_training"])
    return ReplicaFindings(
        pictures=table["pictures"],
        predictions=table["predictions"],
        nearest=table["nearest_training"],
        conditions=table["conditions"],
        landscape={width: read_json(landscape / f"{width}.json") for width in widths},
        known=images.pop("nearest_training"),
        images=images,
    )


def agreement(row: Row) -> float:
    """1 − MSE(same noise)/MSE(other noise): 1 where pictures are equal, 0 where noise says nothing of them."""
    return 1 - float(row["mse_same"] / row["mse_other_noise"])


def relative_residual(point: Mapping[str, list[float]]) -> float:
    """How far the power iteration may at most be from an eigenvalue, as a share of what it found."""
    return point["residuals"][-1] / abs(point["quotients"][-1])


def seed_of(name: str) -> int | None:
    """The training seed of a model, by its name; None: it has none."""
    *_, seed = name.rpartition("seed_")
    return int(seed) if seed.isdigit() else None


def model_name(name: str) -> str:
    """A model's name as people read it."""
    return name.replace("/seed_", ", seed ")
