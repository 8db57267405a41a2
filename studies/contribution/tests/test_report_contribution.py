"""The page of the study, from what its stages leave."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from PIL import Image
from stage_project import write_params

from studies.contribution.stages.report_contribution import main
from unequal.files import write_json, write_npz

pytestmark = pytest.mark.slow

T, PAIRS, WINDOWS = 1000, [(1, 500), (500, 1000), (1, 10)], [(1, 500), (501, 1000)]
GRID: dict[str, list[Any]] = {"recipes": ["epsilon", "v_prediction"], "batches": ["8x1"], "seeds": [0, 1]}


def runs() -> list[dict[str, Any]]:
    ranges = [{"replaced": "range", "first": first, "last": last} for first, last in PAIRS]
    return [{"replaced": "none"}, *ranges, *({"replaced": "window", "first": a, "last": b} for a, b in WINDOWS)]


@pytest.fixture(autouse=True)
def measured(project: Path) -> None:
    """Two predictions, two seeds; v is better by 5 dB and half the colour shift."""
    facts = {"n": 48, "shape": [3, 16, 16], "range": [0, 255], "source": "patches", "path": None, "labels": None}
    split = {"train": [0, 40], "holdout": [40, 48]}
    write_json(Path("artifacts/data/facts.json"), facts | {"sha256": "0" * 64, "split": split})
    np.save("artifacts/data/images.npy", np.zeros((48, 3, 16, 16), np.uint8))
    random = np.random.default_rng(0)
    levels = np.array([10.0, 40.0, 20.0, 30.0, 38.0, 20.0])
    for recipe in GRID["recipes"]:
        for seed in GRID["seeds"]:
            name, better = f"{recipe}_batch_8x1_seed_{seed}", recipe == "v_prediction"
            psnr = levels[:, None] + 5 * better + random.normal(0, 0.1, (6, 8))
            shift = np.repeat((50 - psnr)[..., None], 3, axis=2) / (1 + better)
            images = {key: random.integers(0, 256, (4, 3, 16, 16), np.uint8) for key in ("low", "truth")}
            tables = {"psnr": psnr, "colour_shift": shift, "low_psnr": psnr[0], "low_colour_shift": shift[0]}
            images["samples"] = random.integers(0, 256, (6, 4, 3, 16, 16), np.uint8)
            write_npz(Path(f"artifacts/contribution/{name}.npz"), **tables, **images)
            write_json(Path(f"results/contribution/{name}.json"), conditions(recipe, seed) | {"runs": runs()})


def conditions(recipe: str, seed: int) -> dict[str, Any]:
    return {
        "variant": f"{recipe}/batch_8x1/seed_{seed}",
        "prediction": recipe,
        "noise_seed": 7,
        "eta": 1.0,
        "images": 8,
        "clip": True,
        "schedule": "linear",
        "timesteps": T,
        "super_resolution_factor": 4,
        "total_images": 160,
        "total_flops": 10**9,
    }


def run() -> Result:
    write_params(grid=GRID)
    return CliRunner().invoke(main, [])


def test_the_page_says_what_was_put_in() -> None:
    result = run()
    assert result.exit_code == 0, result.output
    found = json.loads(Path("results/findings.json").read_text())
    # Runs with nothing replaced come to 10 dB, and 5 more for v; interpolation is given the same.
    assert (
        found["ahead_epsilon_psnr"] == pytest.approx(found["ahead_epsilon_bilinear_psnr"]) == pytest.approx(10, abs=0.1)
    )
    assert found["ahead_v_prediction_psnr"] == pytest.approx(15, abs=0.1)
    assert 2 <= found["coefficient_last_above_a_tenth"] <= 15
    page = Path("results/report.html").read_text()
    assert "favoured by construction" in page
    for condition in ("T = 1000", "n = 8 held-out", "super-resolution by 4", "160 a training", "noise of seed 7"):
        assert condition in page
    assert len(Path("results/contribution.csv").read_text().splitlines()) == 1 + 4 * 6
    assert len(Path("results/coefficients.csv").read_text().splitlines()) == 1 + T


def test_every_picture_is_drawn() -> None:
    assert run().exit_code == 0
    names = ["coefficients", "predictions", "ranges", "replaced", "windows"]
    assert sorted(path.stem for path in Path("results/pictures").iterdir()) == names
    for path in Path("results/pictures").iterdir():
        with Image.open(path) as picture:
            assert len(picture.convert("L").getcolors(256) or range(257)) > 10
    assert all(f'id="{name}"' in Path("results/report.html").read_text() for name in names)


def test_a_trial_that_is_missing_is_named() -> None:
    gone = Path("results/contribution/v_prediction_batch_8x1_seed_1.json")
    gone.unlink()
    result = run()
    assert result.exit_code == 1
    assert result.output.startswith(f"report_contribution: {gone}: missing")
