"""What a pilot tells of a study, on made-up trainings whose scatter and slope are known."""

from typing import Any

import numpy as np
import pytest
from blocks_data import design

from studies.blocks.piloting import pilot_document, slope
from studies.blocks.settings import Pilot, Try
from unequal.evidence.power import Design, visible_effect

SCATTER, SLOPE, SEEDS = 0.01, -0.3, tuple(range(100, 140))
TRIES = {"half": Try(lr=5e-4), "whole": Try()}
PILOT = Pilot(arms=("control", "lower"), tries=TRIES, seeds=SEEDS, share=0.25)


def training(level: float, **more: Any) -> dict[str, Any]:
    endpoint = float(np.exp(level))
    costs = {"images": 100, "training_seconds": 50.0, "measuring_seconds": 10.0}
    return {"endpoints": {"loss_over_timesteps": endpoint, "fid": endpoint}, "costs": costs} | more


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    generator = np.random.default_rng(0)
    levels = generator.normal(size=len(SEEDS))
    bases = [training(level, half=training(level - SLOPE)["endpoints"]) for level in levels]
    # At half of its rate every arm ends 5 % lower.
    arms = {
        arm: [
            {
                label: training(level + SCATTER * generator.normal() - 0.05 * (label == "half"), lr=one.lr or 1e-3)
                for label, one in TRIES.items()
            }
            for level in levels
        ]
        for arm in PILOT.arms
    }
    return pilot_document(design(), PILOT, bases, arms)


def test_the_scatter_is_that_within_blocks(told: dict[str, Any]) -> None:
    fid = told["endpoints"]["fid"]
    assert fid["freedom"] == 3 * (len(SEEDS) - 1)
    assert fid["deviation"] == pytest.approx(SCATTER, rel=0.15)
    assert fid["deviation"] < fid["upper_deviation"] < 1.2 * fid["deviation"]


def test_a_doubling_and_what_delta_is_worth(told: dict[str, Any]) -> None:
    fid = told["endpoints"]["fid"]
    assert fid["slope_per_doubling"] == pytest.approx(SLOPE)
    # δ = 0.02 is a fifteenth of a doubling.
    assert fid["images_worth_delta"] == pytest.approx(2 ** (1 / 15))


def test_blocks_that_delta_needs_are_the_fewest(told: dict[str, Any]) -> None:
    fid = told["endpoints"]["fid"]
    assert fid["visible_effect"] == pytest.approx(visible_effect(Design(4, 5, 3), fid["upper_deviation"]))
    needed = fid["blocks_for_delta"]
    assert visible_effect(Design(4, needed, 3), fid["upper_deviation"]) <= 0.02
    assert visible_effect(Design(4, needed - 1, 3), fid["upper_deviation"]) > 0.02
    assert fid["sees_delta"] == (needed <= 5)


def test_the_best_try_is_the_lower_rate(told: dict[str, Any]) -> None:
    assert {arm: one["best"] for arm, one in told["tries"].items()} == {"control": "half", "lower": "half"}
    assert told["tries"]["control"]["tried"]["half"]["lr"] == 5e-4


def test_the_price_of_the_study(told: dict[str, Any]) -> None:
    assert told["training_image_seconds"] == pytest.approx(0.5)
    # Two blocks are trained here, of a base and five arms: each four times as long as in the pilot, and measured.
    assert told["study_seconds"] == pytest.approx(2 * 6 * (4 * 50 + 10))


def test_arms_with_fresh_weights_tell_the_slope_themselves() -> None:
    pilot = Pilot(arms=("control",), tries=TRIES, seeds=(100, 101), share=0.5)
    levels = ((0.1, 0.3), (0.2, 0.1))
    arms = {
        "control": [
            {
                label: training(level, half=training(level + 0.2)["endpoints"], lr=1e-3)
                for label, level in zip(TRIES, block, strict=True)
            }
            for block in levels
        ]
    }
    told = pilot_document(design(), pilot, [], arms)
    assert told["endpoints"]["fid"]["slope_per_doubling"] == pytest.approx(-0.2)
    assert told["study_seconds"] == pytest.approx(2 * 5 * (2 * 50 + 10))


@pytest.mark.parametrize("change", [1e-5, -1e-9, 0.0])
def test_a_level_curve_makes_no_factor_of_delta(change: float) -> None:
    flat = [training(0.1, half=training(0.1 - change)["endpoints"])]
    assert slope("fid", flat, 0.02)["images_worth_delta"] is None
