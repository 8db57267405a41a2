"""What a pilot has told, as tables of a study's page."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from studies.blocks.tables import NAMES
from unequal.report.formatting import label, percent
from unequal.report.page import Table

COLUMNS = (
    "endpoint",
    "scatter of a training",
    "at most (80 %)",
    "last doubling of images",
    "images worth δ",
    "seen",
    "asked for",
    "blocks that see it",
    "hours they take",
)


def pilot_table(pilot: Mapping[str, Any]) -> Table:
    """Scatter, slope, what is seen and what it takes, an endpoint a row."""
    rows = [endpoint_row(name, one, pilot["block_seconds"]) for name, one in pilot["endpoints"].items()]
    note = (
        f"Trainings of {percent(pilot['share'])} of the images, on seeds of the pilot's own. Scatter is within blocks; "
        "seen is what the planned blocks show in four of five studies, of the comparison that shows least. "
        f"{headroom(pilot)} With the planned blocks the study takes {hours(pilot['study_seconds'])} hours of a thread "
        "as fast as the pilot's, if its arms cost what the pilot's do in the mean."
    )
    return Table("What the pilot has told", COLUMNS, rows, note)


def endpoint_row(name: str, one: Mapping[str, Any], block_seconds: float) -> tuple[str, ...]:
    """A row of it; differences of logarithms as relative ones."""
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
    """As text."""
    return f"{seconds / 3600:.1f}"


def headroom(pilot: Mapping[str, Any]) -> str:
    """Whether FID's features tell a training of twice the images from one, more than the study can see anyway."""
    if (fid := pilot["endpoints"].get("fid")) is None:
        return ""
    fit = -fid["slope_per_doubling"] > fid["visible_effect"]
    told = "fit: a doubling of images lowers FID by more than" if fit else "not fit: a doubling of images is within"
    return f"The features of FID are {told} what is seen, at the length of the pilot's trainings."


def tries_table(pilot: Mapping[str, Any]) -> Table:
    """Geometric means of the endpoints of every try, the best by the first endpoint marked."""
    endpoints = list(pilot["endpoints"])
    rows = [
        (
            f"{label(arm)}: {label(name)}",
            f"{tried['lr']:.2g}",
            *(f"{np.exp(tried[one]):.4g}" for one in endpoints),
            "best" if name == found["best"] else "",
        )
        for arm, found in pilot["tries"].items()
        for name, tried in found["tried"].items()
    ]
    note = "By the first endpoint; arms of the study are trained by the try that params.yaml names at pilot.chosen."
    return Table("What the pilot has tried", ("arm: try", "rate", *(NAMES[one] for one in endpoints), ""), rows, note)
