"""Figures of a pilot's trainings, in results/pilot, and its judgement in results/pilot.json, as tables."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from unequal.comparison.pilot import Arms, Trainings
from unequal.comparison.results import file_of
from unequal.comparison.settings import Pilot
from unequal.comparison.tables import NAMES
from unequal.report.figures import Figures, read_figures
from unequal.report.formatting import label, percent
from unequal.report.page import Table


class Costs(Figures):
    """Costs of a training of the pilot."""

    images: PositiveInt
    training_seconds: NonNegativeFloat
    measuring_seconds: NonNegativeFloat


class Training(Figures):
    """A training of the pilot; `half` are its endpoints at half of its images."""

    endpoints: dict[str, PositiveFloat]
    costs: Costs


class Base(Training):
    """results/pilot/base/block_<seed>.json."""

    half: dict[str, PositiveFloat]


class Tried(Training):
    """A try of a variant."""

    lr: PositiveFloat


class Arm(Figures):
    """results/pilot/<arm>/block_<seed>.json."""

    tries: dict[str, Tried]


class Promise(Figures):
    """An endpoint in results/pilot.json: the figures from which a comparison is judged."""

    upper_deviation: NonNegativeFloat
    whole_upper_deviation: NonNegativeFloat
    deviation: NonNegativeFloat
    freedom: PositiveInt
    slope_per_doubling: float
    images_worth_delta: PositiveFloat | None
    needed: PositiveFloat
    visible_effect: PositiveFloat
    blocks_needed: PositiveInt | None


class BestTry(Figures):
    """A variant's tries in results/pilot.json."""

    best: str
    tried: dict[str, dict[str, float]]


class PilotFigures(Figures):
    """results/pilot.json."""

    share: PositiveFloat
    endpoints: dict[str, Promise]
    tries: dict[str, BestTry]
    block_seconds: NonNegativeFloat
    study_seconds: NonNegativeFloat


def read_bases(folder: Path, pilot: Pilot) -> Trainings:
    """Read the pilot's bases. Raises UserError where a file is missing or damaged."""
    return [read_figures(folder / file_of("base", seed), Base) for seed in pilot.seeds]


def read_arms(folder: Path, pilot: Pilot) -> Arms:
    """Read the tries of the pilot's variants, by block. Raises UserError where a file is missing or damaged."""
    return {
        arm: [read_figures(folder / file_of(arm, seed), Arm)["tries"] for seed in pilot.seeds] for arm in pilot.arms.all
    }


COLUMNS = (
    "endpoint",
    "scatter of a training",
    "at most (80 %)",
    "last doubling of images",
    "images worth δ",
    "detectable",
    "needed",
    "blocks that detect it",
    "hours they take",
)


def pilot_table(pilot: Mapping[str, Any]) -> Table:
    """Table of scatter, slope, detectable difference and cost, with one row per endpoint."""
    rows = [endpoint_row(name, one, pilot["block_seconds"]) for name, one in pilot["endpoints"].items()]
    note = (
        f"Trainings of {percent(pilot['share'])} of the images, on seeds of the pilot's own. Scatter is within blocks; "
        "detectable is what the planned blocks detect in four of five studies, for the least sensitive comparison. "
        f"{headroom(pilot)} With the planned blocks the study takes {hours(pilot['study_seconds'])} hours of a thread "
        "as fast as the pilot's, if its variants cost what the pilot's do in the mean."
    )
    return Table("The pilot: scatter and detectable differences", COLUMNS, rows, note)


def endpoint_row(name: str, one: Mapping[str, Any], block_seconds: float) -> tuple[str, ...]:
    """Row of an endpoint, with differences of logarithms converted to relative ones."""
    worth, blocks = one["images_worth_delta"], one["blocks_needed"]
    return (
        NAMES[name],
        percent(one["deviation"]),
        percent(one["upper_deviation"]),
        percent(float(np.expm1(one["slope_per_doubling"])), sign=True),
        "–" if worth is None else f"× {worth:.3g}",
        percent(float(np.expm1(one["visible_effect"]))),
        percent(float(np.expm1(one["needed"]))),
        "more than 40" if blocks is None else str(blocks),
        "–" if blocks is None else hours(blocks * block_seconds),
    )


def hours(seconds: float) -> str:
    """Hours, as text."""
    return f"{seconds / 3600:.1f}"


def headroom(pilot: Mapping[str, Any]) -> str:
    """State whether doubling the images changes FID by more than the study can detect."""
    if (fid := pilot["endpoints"].get("fid")) is None:
        return ""
    fit = -fid["slope_per_doubling"] > fid["visible_effect"]
    judgement = (
        "fit: a doubling of images lowers FID by more than" if fit else "not fit: a doubling of images is within"
    )
    return f"The features of FID are {judgement} the detectable difference, at the length of the pilot's trainings."


def tries_table(pilot: Mapping[str, Any]) -> Table:
    """Table of geometric means of the endpoints of every try; the best try by the first endpoint is marked."""
    endpoints = list(pilot["endpoints"])
    rows = [
        (
            f"{label(arm)}: {label(name)}",
            f"{tried['lr']:.2g}",
            *(f"{np.exp(tried[one]):.4g}" for one in endpoints),
            "best" if name == tries["best"] else "",
        )
        for arm, tries in pilot["tries"].items()
        for name, tried in tries["tried"].items()
    ]
    note = "By the first endpoint; variants of the study are trained by the try that params.yaml names at pilot.chosen."
    return Table(
        "The pilot: tries", ("variant: try", "learning rate", *(NAMES[one] for one in endpoints), ""), rows, note
    )
