"""The study's report on a made-up project: what was put in comes out, whole or not at all."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from small_batches_data import BATCHES, RECIPES, SEEDS, fids, gradients
from stage_project import write_params

from studies.small_batches.stages.report_small_batches import main
from unequal.files import write_json

pytestmark = pytest.mark.slow

SCORING = {
    "samples_per_seed": 1000,
    "sampling_seeds": [0],
    "extractor": "a classifier",
    "features": 64,
    "reference": "training images",
    "sampling": {"steps": 20, "spacing": "uniform", "eta": 0.0, "clip": True},
    "singular_covariance": False,
    "device": "cpu",
    "fp32": "ieee",
}


@pytest.fixture(autouse=True)
def study(project: Path) -> None:
    write_params(
        grid={
            "recipes": list(RECIPES),
            "batches": list(BATCHES),
            "seeds": list(SEEDS),
            "reference_batch": 32,
            "lr_scaling": "sqrt",
        },
        small_batches={"baselines": ["uniform"], "batches": ["8x4", "128x1"]},
    )
    folder = Path("artifacts/data")
    folder.mkdir(parents=True)
    np.save(folder / "images.npy", np.zeros((24, 1, 8, 8), np.uint8))
    facts = {"n": 24, "shape": [1, 8, 8], "range": [0, 255], "source": "made-up", "path": None, "labels": None}
    split = {"train": [0, 20], "holdout": [20, 24]}
    write_json(folder / "facts.json", facts | {"sha256": "0" * 64, "split": split})
    write_json(Path("results/gradients/base.json"), gradients())
    for (recipe, batch), values in fids().items():
        for seed, value in zip(SEEDS, values, strict=True):
            name = f"{recipe}_batch_{batch}_seed_{seed}"
            write_json(
                Path(f"results/trials/{name}.json"), SCORING | {"points": [{"fid_mean": 99}, {"fid_mean": value}]}
            )
            write_json(Path(f"results/metrics/train_{name}.json"), {"steps": 100, "images_seen": 6400})


def run() -> Result:
    return CliRunner().invoke(main, [])


def test_the_report_says_what_was_put_in() -> None:
    result = run()
    assert result.exit_code == 0, result.output
    found = json.loads(Path("results/verdicts.json").read_text())["verdicts"]
    assert (found["small_batches_lose"], found["adaptive_pays"]) == ("held", "held")
    rows = list(csv.DictReader(Path("results/small_batches.csv").read_text().splitlines()))
    expected = {
        (*name, seed): value for name, values in fids().items() for seed, value in zip("012", values, strict=True)
    }
    assert {(row["recipe"], row["batch"], row["seed"]): float(row["fid"]) for row in rows} == pytest.approx(expected)


def test_the_page_holds_every_picture_and_its_conditions() -> None:
    run()
    page = Path("results/report.html").read_text()
    drawn = {path.stem for path in Path("results/pictures").glob("*.png")}
    assert drawn == {"fid_batches", "variance_fid", "gradient_lengths", "cosines"}
    assert page.count("data:image/png") == 4
    for text in ("made-up, 20 training and 4 held-out images", "times √(B/R)", "DDIM, 20 steps", "6400 images each"):
        assert text in page


def test_a_second_run_gives_the_same_bytes() -> None:
    run()
    first = Path("results/report.html").read_bytes()
    run()
    assert Path("results/report.html").read_bytes() == first


@pytest.mark.parametrize("path", ["results/trials/adaptive_batch_32x1_seed_1.json", "results/gradients/base.json"])
def test_what_is_missing_is_named_in_one_line(path: str) -> None:
    Path(path).unlink()
    result = run()
    assert result.exit_code == 1
    assert result.output.startswith(f"report_small_batches: {path}: missing") and result.output.count("\n") == 1
    assert not Path("results/report.html").exists()
