"""Made-up judgement of a pilot and samples, for tests of pages; and the textbook's smallest detectable effect."""

from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student_t

from unequal.comparison.settings import Comparison
from unequal.runtime.files import write_json
from unequal.statistics.power import POWER, Design
from unequal.statistics.verdicts import LEVEL


def pilot_figures(*endpoints: str, upper_deviation: float = 0.004) -> dict[str, Any]:
    """Contents of results/pilot.json for some endpoints."""
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


def write_pilot(results: Path, *endpoints: str, **changes: float) -> None:
    """Write results/pilot.json, and the figures of the extractor and of real images that a page reads."""
    write_json(results / "pilot.json", pilot_figures(*endpoints, **changes))
    write_json(results / "metrics/extractor.json", {"holdout_accuracy": 0.9})
    real = {"fid": 0.1234, "fid_half": 0.2, "kid": 0.0, "precision": 0.8, "recall": 0.8}
    ends = {"real_against_real": real, "noise_against_real": real | {"fid": 80.0}}
    write_json(results / "fid/reference.json", ends | {"real_sets": "training against held-out"})


def textbook_effect(plan: Design) -> float:
    """(t_{1−0.05/2m,ν} + t_{0.8,ν})·√(2/B): detectable by the pooled variance alone, for a deviation of 1."""
    quantiles = student_t.ppf([1 - LEVEL / 2 / plan.comparisons, POWER], plan.freedom).sum()
    return float(quantiles * np.sqrt(2 / plan.blocks))


def write_samples(plan: Comparison) -> None:
    """Pictures of the first block, below the working directory."""
    for arm in plan.arms.all:
        file = Path(f"artifacts/samples/{arm}/block_{plan.seeds[0]}.npy")
        file.parent.mkdir(parents=True, exist_ok=True)
        np.save(file, np.zeros((4, 3, 8, 8), np.uint8))
