"""A made-up study, whose answers are known."""

from pathlib import Path
from typing import Any

import numpy as np
from piloted import write_samples

from unequal.comparison.settings import Comparison
from unequal.runtime.files import write_json

DESIGN: dict[str, Any] = {
    "question": "Does it pay?",
    "subject": "pictures",
    "seeds": [0, 1, 2, 3, 4],
    "arms": {"bases": [], "fresh": ["control", "again", "lower", "alike", "other"], "heads": [], "continued": []},
    "batch_sizes": {},
    "confirm": {"seeds": []},
    "comparisons": [
        {"arm": "lower", "control": "control"},
        {"arm": "alike", "control": "control"},
        {"arm": "other", "control": "control", "test": "paired"},
    ],
    "repeated": {"arm": "again", "control": "control"},
    "endpoints": {"loss_over_timesteps": 0.02, "fid": 0.02},
}
#: In ln(endpoint), against the control; trainings scatter by 0.003 within blocks, blocks by 0.2.
EFFECTS = {"lower": -0.1, "other": 0.1}


def design(**changes: Any) -> Comparison:
    return Comparison.model_validate(DESIGN | changes, strict=False)


def figures(arm: str, block: int, generator: np.random.Generator) -> dict[str, Any]:
    level = 0.2 * np.random.default_rng(block).normal() + EFFECTS.get(arm, 0.0)
    endpoint = {name: float(np.exp(level + 0.003 * generator.normal())) for name in DESIGN["endpoints"]}
    return {
        "arm": arm,
        "block": block,
        "endpoints": endpoint,
        "scores": {"kid": 0.01},
        "costs": {"images": 1400, "training_seconds": 6.0, "measuring_seconds": 1.0}
        | {"training_flops": 10, "sampling_flops": 10, "parameters": 100, "parameters_per_step": 100},
        "curve": {"timesteps": [8], "first": [0, 2, 4], "loss": [endpoint["fid"]] * 3},
        "conditions": {"data": "digits, made up", "extractor": "a classifier", "device": "cpu"},
    }


def write_trainings(folder: Path, plan: Comparison) -> None:
    """The endpoints of all arms."""
    generator = np.random.default_rng(0)
    for arm in plan.arms.all:
        for block in plan.seeds:
            write_json(folder / f"{arm}/block_{block}.json", figures(arm, block, generator))
    write_samples(plan)
