"""What ranges of timesteps contribute to enlarged images (paper 1, Fig. 3 and 4): what was measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

SYMBOLS = {"epsilon": "ε", "v_prediction": "v", "sample": "x0", "velocity": "velocity", "mixed": "mixed"}
#: First and last timestep, counted from 1 as in the paper.
Pair = tuple[int, int]


class Quality(NamedTuple):
    """Of the images of one run, each [n]: PSNR in dB, and colour shift in 8-bit units averaged over channels."""

    psnr: np.ndarray
    colour_shift: np.ndarray


@dataclass(frozen=True)
class ModelRuns:
    """One model and its runs: with nothing replaced, with x0 replaced in ranges, and in sliding windows.

    `trial` names batch and training seed, which models of different predictions share.
    """

    prediction: str
    trial: str
    images_seen: int
    training_flops: int
    unreplaced: Quality
    ranges: dict[Pair, Quality]
    windows: dict[Pair, Quality]
    low_resolution: Quality

    @classmethod
    def of(cls, facts: Mapping[str, Any], tables: Mapping[str, np.ndarray]) -> "ModelRuns":
        """From the JSON and the tables that the stage `contribution` writes."""
        qualities = [Quality(*one) for one in zip(tables["psnr"], tables["colour_shift"].mean(-1), strict=True)]
        runs = list(zip(facts["runs"], qualities, strict=True))

        def replaced(kind: str) -> dict[Pair, Quality]:
            return {(run["first"], run["last"]): found for run, found in runs if run["replaced"] == kind}

        return cls(
            facts["prediction"],
            facts["variant"].partition("/")[2],
            facts["total_images"],
            facts["total_flops"],
            qualities[0],
            replaced("range"),
            replaced("window"),
            Quality(tables["low_psnr"], tables["low_colour_shift"].mean(-1)),
        )

    @property
    def name(self) -> str:
        """Prediction, batch and training seed."""
        return f"{SYMBOLS[self.prediction]}, {self.trial.replace('_', ' ').replace('/', ', ')}"


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    """Mean of values [n] and its standard error."""
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def by_prediction(trainings: Sequence[ModelRuns]) -> dict[str, list[ModelRuns]]:
    """Prediction → its trainings."""
    names = dict.fromkeys(one.prediction for one in trainings)
    return {name: [one for one in trainings if one.prediction == name] for name in names}
