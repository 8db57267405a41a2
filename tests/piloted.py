"""What a pilot of a study tells, made up, for tests of studies' pages."""

from pathlib import Path
from typing import Any

from unequal.files import write_json


def pilot_told(*endpoints: str, upper_deviation: float = 0.004) -> dict[str, Any]:
    """What results/pilot.json holds, of some endpoints."""
    one = {
        "deviation": upper_deviation / 2,
        "freedom": 4,
        "upper_deviation": upper_deviation,
        "whole_upper_deviation": 2 * upper_deviation,
        "slope_per_doubling": -0.3,
        "images_worth_delta": None,
        "needed": 0.02,
        "visible_effect": 0.01,
        "blocks_needed": 3,
    }
    tried = {"lr": 1.0e-3} | dict.fromkeys(endpoints, -1.0)
    tries = {"control": {"best": "own", "tried": {"own": tried}}}
    seconds = {"block_seconds": 1440.0, "study_seconds": 7200.0}
    return {"share": 0.25, "endpoints": dict.fromkeys(endpoints, one), "tries": tries} | seconds


def write_pilot(results: Path, *endpoints: str, **told: float) -> None:
    """results/pilot.json, and what is told of the extractor and of real images, as a page reads them."""
    write_json(results / "pilot.json", pilot_told(*endpoints, **told))
    write_json(results / "metrics/extractor.json", {"holdout_accuracy": 0.9})
    real = {"fid": 0.1234, "fid_half": 0.2, "kid": 0.0, "precision": 0.8, "recall": 0.8}
    ends = {"real_against_real": real, "noise_against_real": real | {"fid": 80.0}}
    write_json(results / "fid/reference.json", ends | {"real_sets": "training against held-out"})
