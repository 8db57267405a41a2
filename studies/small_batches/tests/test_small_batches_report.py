"""The mechanism on the study's page, from a made-up study whose answers are known."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from piloted import write_pilot
from stage_project import write_params

from studies.small_batches.findings import Estimate, Gradients, Retrained
from studies.small_batches.stages.report_small_batches import gradients_table, retrained_table
from unequal.files import write_json
from unequal.training.gradient_meter import METRICS

BLOCKS = (0, 1, 2, 3)
ARMS = ["large", "again", "small"]
ENDPOINTS = ("loss_over_timesteps", "fid")
WAYS = ["uniform", "slot_2"]
#: Cosines between three slots: one pair opposed, one aligned, one at right angles.
COSINES = np.array([[1.0, -0.5, 0.4], [-0.5, 1.0, 0.0], [0.4, 0.0, 1.0]])
#: Of a cosine, in each block.
ERROR = 0.05
JITTER = np.array([-0.01, 0.01, -0.02, 0.02])


def figure(value: Any) -> dict[str, Any]:
    return {"value": value, "stderr": value}


def point(images: int, block: int) -> dict[str, Any]:
    noise = JITTER[block] * np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0]])
    found = {
        "noise_scale": figure(100.0 * 2 ** (block - 1.5)),
        "between_share": figure(0.02 + 0.1 * JITTER[block]),
        "variance_slots": figure(0.8),
        "variance_least_variance": figure(0.6),
        "cosines": {"value": (COSINES + noise).tolist(), "stderr": np.full((3, 3), ERROR).tolist()},
    }
    return {"images": images} | dict.fromkeys(METRICS, found)


def changed(block: int) -> dict[str, Any]:
    return {
        way: {"slots": [0.2 + JITTER[block], -0.1, 0.05], "slots_stderr": [0.01] * 3, "all": 0.03, "all_stderr": 0.01}
        for way in WAYS
    }


def gradients() -> Gradients:
    return Gradients("small", [[point(50, block), point(100, block)] for block in BLOCKS])


def retrained() -> Retrained:
    return Retrained("small", [changed(block) for block in BLOCKS])


def test_an_estimate_takes_sides_by_students_interval() -> None:
    assert Estimate.of([1.0, 2.0, 3.0]) == pytest.approx((2.0, 1 / np.sqrt(3), 2))
    # t(0.975, 2) = 4.303, and 4.303 · 0.577 = 2.48 is more than 2.
    assert [Estimate.of([sign * 2 + one for one in (-1, 0, 1)]).side for sign in (1, -1)] == [0, 0]
    assert [Estimate.of([sign * 3 + one for one in (-1, 0, 1)]).side for sign in (1, -1)] == [1, -1]


def test_what_was_put_in_comes_out_of_the_tables() -> None:
    first, *rest = gradients_table([gradients()]).rows
    # The geometric mean of 100·2^{−1.5, −0.5, 0.5, 1.5}; its error is 2 to the power of 1.291/2.
    assert first[:4] == ("small, as they are", "50", "100 ×÷ 1.56", "2.00 % ± 0.09 %")
    assert first[-4:-2] == ("1 of 3", "1 of 3")
    assert first[-2:] == ("1, 1, 1, 1", "1, 1, 1, 1")
    assert len(rest) == 3
    (_, inside) = retrained_table([retrained()]).rows
    assert inside[0] == "small: slot 2"
    assert (inside[2][:6], inside[3]) == ("+20.0 ", "[−10.0 % ± 0.00 %]")


@pytest.fixture
def study(project: Path) -> Path:
    write_params(
        comparison={
            "question": "Does it fail?",
            "subject": "made-up images",
            "seeds": list(BLOCKS),
            "arms": {"bases": [], "fresh": ARMS, "heads": [], "continued": []},
            "batch_sizes": {},
            "confirm": {"seeds": []},
            "comparisons": [{"arm": "small", "control": "large", "test": "welch"}],
            "repeated": {"arm": "again", "control": "large", "test": "welch"},
            "endpoints": dict.fromkeys(ENDPOINTS, 0.05),
        },
        schedule={"name": "linear", "timesteps": 50},
        recipes={},
        mechanism=list(BLOCKS),
        gradients={"arms": ["small"]},
        retraining={
            "arms": ["small"],
            "ways": WAYS,
            "images": 16,
            "warmup_images": 0,
            "lr_share": 0.5,
            "power": 2.0,
        },
    )
    write_pilot(Path("results"), *ENDPOINTS)
    for folder in ("trainings", "confirm"):
        Path("results", folder).mkdir()
    for block in BLOCKS:
        for arm in ARMS:
            value = (2.0 if arm == "small" else 1.0) * (1 + 0.1 * JITTER[block])
            write_json(Path(f"results/endpoints/{arm}/block_{block}.json"), training(arm, block, value))
        write_json(Path(f"results/gradients/small/block_{block}.json"), {"points": gradients().points[block]})
        write_json(Path(f"results/retrained/small/block_{block}.json"), {"ways": changed(block)})
    return project


def training(arm: str, block: int, value: float) -> dict[str, Any]:
    costs = dict.fromkeys(("images", "training_flops", "sampling_flops", "parameters", "parameters_per_step"), 100)
    return {
        "arm": arm,
        "block": block,
        "made_by": arm,
        "endpoints": dict.fromkeys(ENDPOINTS, value),
        "scores": {"kid": 0.01},
        "costs": costs,
        "curve": {"timesteps": [8], "first": [0, 2, 4], "loss": [value] * 3},
        "conditions": {"data": "digits, made up", "extractor": "a classifier"},
    }
