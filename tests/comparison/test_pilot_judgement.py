"""Judgement of a pilot, on made-up trainings whose scatter and slope are known."""

from typing import Any

import numpy as np
import pytest
from blocks_data import design

from unequal.comparison.pilot import good_tries, pilot_document, slope
from unequal.comparison.settings import Pilot, PilotArms, Try
from unequal.statistics.power import Design, visible_effect

SCATTER, SLOPE, SEEDS = 0.01, -0.3, tuple(range(100, 140))
TRIES = {"half": Try(lr=5e-4), "whole": Try()}


def pilot_of(*arms: str, **changes: Any) -> Pilot:
    settings: dict[str, Any] = {"tries": TRIES, "seeds": SEEDS, "share": 0.25, "chosen": {}} | changes
    return Pilot(arms=PilotArms(fresh=arms, continued=()), **settings)


PILOT = pilot_of("control", "lower")


def training(level: float, **more: Any) -> dict[str, Any]:
    endpoint = float(np.exp(level))
    costs = {"images": 100, "training_seconds": 50.0, "measuring_seconds": 10.0}
    return {"endpoints": {"loss_over_timesteps": endpoint, "fid": endpoint}, "costs": costs} | more


@pytest.fixture(scope="module")
def document():
    generator = np.random.default_rng(0)
    levels = generator.normal(size=len(SEEDS))
    bases = [training(level, half=training(level - SLOPE)["endpoints"]) for level in levels]
    # At half of its rate every arm ends 3 % lower.
    arms = {
        arm: [
            {
                label: training(level + SCATTER * generator.normal() - 0.03 * (label == "half"), lr=one.lr or 1e-3)
                for label, one in TRIES.items()
            }
            for level in levels
        ]
        for arm in PILOT.arms.all
    }
    return pilot_document(design(effects={"loss_over_timesteps": 0.5}), PILOT, bases, arms)


def test_scatter_slope_and_what_delta_is_worth(document):
    fid = document["endpoints"]["fid"]
    assert fid["freedom"] == 3 * (len(SEEDS) - 1)
    assert fid["deviation"] == pytest.approx(SCATTER, rel=0.15)
    assert fid["deviation"] < fid["upper_deviation"] < 1.2 * fid["deviation"]
    # Without blocks: their levels scatter by 1, a hundred times as much as trainings within them.
    assert fid["whole_deviation"] == pytest.approx(1.0, rel=0.3)
    assert fid["slope_per_doubling"] == pytest.approx(SLOPE)
    assert fid["images_worth_delta"] == pytest.approx(2 ** (1 / 15))  # δ = 0.02 is a fifteenth of a doubling


def test_blocks_that_delta_needs_are_the_fewest(document):
    losses, fid = (document["endpoints"][name] for name in ("loss_over_timesteps", "fid"))
    seen = {"pooled": Design(4, 5, 3), "paired": Design(2, 5, 3)}
    by_test = {test: visible_effect(design, fid["upper_deviation"]) for test, design in seen.items()}
    assert fid["visible_by_test"] == pytest.approx(by_test)
    # Two arms alone show less than all together.
    assert fid["visible_effect"] == fid["visible_by_test"]["paired"] > fid["visible_by_test"]["pooled"]
    needed = fid["blocks_needed"]
    assert visible_effect(Design(2, needed, 3), fid["upper_deviation"]) <= 0.02
    assert visible_effect(Design(2, needed - 1, 3), fid["upper_deviation"]) > 0.02
    assert fid["testable"] == (needed <= 5)
    # Half of what is claimed must be seen where something is.
    assert (losses["needed"], fid["needed"]) == (0.25, 0.02)
    assert losses["blocks_needed"] < needed


def test_the_best_try_and_the_price_of_the_study(document):
    assert {arm: one["best"] for arm, one in document["tries"].items()} == {"control": "half", "lower": "half"}
    assert document["tries"]["control"]["tried"]["half"]["lr"] == 5e-4
    # Five blocks are trained, of a base and five arms: each four times as long as in the pilot, and measured.
    assert document["block_seconds"] == pytest.approx(6 * (4 * 50 + 10))
    assert document["study_seconds"] == pytest.approx(5 * document["block_seconds"])


def test_tries_that_end_far_from_the_best_show_no_scatter():
    ends = {"good": (0.10, 0.11), "as_good": (0.12, 0.10), "bad": (2.0, 0.9)}
    pilot = pilot_of("control", tries=dict.fromkeys(ends, Try()), seeds=(100, 101), share=0.5)
    block = [{label: training(end[k], half={"fid": 1.0}, lr=1e-3) for label, end in ends.items()} for k in (0, 1)]
    cells = good_tries(design(), {"control": block})
    assert [[np.log(one["endpoints"]["fid"]) for one in cell] for cell in cells] == [
        pytest.approx(ends["good"]),
        pytest.approx(ends["as_good"]),
    ]
    # The price is that of all.
    halves = dict.fromkeys(design().endpoints, 1.2)
    block = [{label: one | {"half": halves} for label, one in found.items()} for found in block]
    assert pilot_document(design(), pilot, [], {"control": block})["study_seconds"] == pytest.approx(5 * 5 * 110)


def test_arms_with_fresh_weights_give_the_slope_themselves():
    pilot = pilot_of("control", seeds=(100, 101), share=0.5)
    levels = ((0.1, 0.3), (0.2, 0.1))
    halved = [
        {level: training(level, half=training(level + 0.2)["endpoints"], lr=1e-3) for level in one} for one in levels
    ]
    arms = {"control": [dict(zip(TRIES, block.values(), strict=True)) for block in halved]}
    document = pilot_document(design(), pilot, [], arms)
    assert document["endpoints"]["fid"]["slope_per_doubling"] == pytest.approx(-0.2)
    assert document["study_seconds"] == pytest.approx(5 * 5 * (2 * 50 + 10))


@pytest.mark.parametrize("change", [1e-5, -1e-9, 0.0])
def test_a_level_curve_makes_no_factor_of_delta(change):
    flat = [training(0.1, half=training(0.1 - change)["endpoints"])]
    assert slope("fid", flat, 0.02)["images_worth_delta"] is None
