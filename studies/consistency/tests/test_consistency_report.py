"""Tables and findings of made-up measurements with a known answer."""

from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest

from studies.consistency.stages.report_consistency import (
    Results,
    findings,
    mean,
    over_seeds,
    prediction_ratios,
)

MODELS = [f"{width}/seed_{seed}" for width in ("16-32", "24-48") for seed in (0, 1, 2)]
TIMESTEPS = (0, 10, 40)
#: MSE of pictures from the same noise; from other noise it is 0.5.
DISTANCES = {"itself": 0.0, "seeds": 0.03, "widths": 0.04, "optimum": 0.2, "untrained": 0.3}


def pairs() -> list[dict[str, Any]]:
    found = []
    for a, b in combinations_with_replacement(MODELS, 2):
        relation = "itself" if a == b else "seeds" if a[:5] == b[:5] else "widths"
        found.append({"relation": relation, "first": a, "second": b})
        if a != b:
            found.append({"relation": "untrained", "first": f"untrained/{a}", "second": f"untrained/{b}"})
    return found + [{"relation": "optimum", "first": model, "second": "optimum"} for model in MODELS]


def picture_row(pair: dict[str, Any], random: np.random.Generator) -> dict[str, Any]:
    same = DISTANCES[pair["relation"]] * random.uniform(0.97, 1.03)
    return pair | {"mse_same": same, "mse_other_noise": 0.5 * random.uniform(0.998, 1.002), "found_again": 0.9}


def results() -> Results:
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (20, 1, 8, 8), dtype=np.uint8)
    table = {
        "pictures": [picture_row(pair, random) for pair in pairs()],
        "predictions": [
            pair | {"timestep": t, "mse_same": 0.1 * ratio, "mse_other_noise": 0.1, "mse_other_image": 0.4}
            for t, ratio in zip(TIMESTEPS, (0.1, 0.2, 0.05), strict=True)
            for pair in pairs()
        ],
        "nearest_training": dict.fromkeys(MODELS, 0.15) | {"held_out": 0.07, "two_training_images": 0.6},
        "conditions": {"timesteps": 50},
    }
    return Results(table, dict.fromkeys(MODELS, images), images)


def test_findings_are_the_numbers_that_were_put_in() -> None:
    found = findings(results())
    assert (found["seeds_mse"], found["seeds_mse_baseline"]) == pytest.approx((0.03, 0.5), rel=0.02)
    assert found["seeds_change_percent"] == pytest.approx(-94, abs=0.2)
    assert found["seeds_low_percent"] < found["seeds_change_percent"] < found["seeds_high_percent"]
    assert found["models_change_percent"] == pytest.approx(-48, abs=2)
    assert (found["agreement_trained"], found["agreement_untrained"]) == pytest.approx((0.928, 0.4), abs=0.005)
    assert prediction_ratios(results()) == pytest.approx({0: 0.1, 10: 0.2, 40: 0.05})


def test_an_interval_leaves_out_a_training_seed_with_all_its_pairs() -> None:
    """Each pair of three seeds is left by one of them; the jackknife of a mean of three is its standard error."""
    values = {(0, 1): 1.0, (0, 2): 2.0, (1, 2): 6.0}
    rows = [{"first": f"w/seed_{a}", "second": f"w/seed_{b}", "value": value} for (a, b), value in values.items()]
    found = over_seeds(rows, lambda some: mean(some, "value"))
    # Pseudo-values are 3·3 − 2·x: their mean is 3, their standard deviation twice that of the values.
    error = 2 * np.std(list(values.values()), ddof=1) / np.sqrt(3)
    assert found.log_ratio == 3.0
    assert found.interval == pytest.approx((3 - 4.3027 * error, 3 + 4.3027 * error), rel=1e-4)
    assert over_seeds(rows[:1], lambda some: mean(some, "value")).interval is None
