"""The study's report on a small made-up project: what was put in comes out, whole or not at all."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from stage_project import write_params

from studies.interference.stages.report_interference import main
from unequal.files import write_json, write_npz

pytestmark = pytest.mark.slow

T = 40
SLOTS = [[0, 4], [5, 14], [15, 39]]
OPTIMIZER = {"betas": [0.9, 0.999], "weight_decay": 0.0, "warmup_images": 0, "decay": "constant"}


def recipe(lr: float, **sampler: Any) -> dict[str, Any]:
    return {
        "images": 100,
        "prediction": "epsilon",
        "sampler": sampler,
        "loss_weight": {"kind": "none"},
        "optimizer": OPTIMIZER | {"lr": lr},
    }


RECIPES = {
    "base": recipe(1e-3, kind="uniform"),
    "slot": recipe(1e-3, kind="slot"),
    "slot_high": recipe(1e-2, kind="slot"),
    "uniform": recipe(1e-3, kind="uniform"),
    "near_noise": recipe(1e-3, kind="near_noise", power=2.0),
}


def write_data() -> None:
    folder = Path("artifacts/data")
    folder.mkdir(parents=True)
    np.save(folder / "images.npy", np.zeros((24, 1, 8, 8), np.uint8))
    facts = {"n": 24, "shape": [1, 8, 8], "range": [0, 255], "source": "made-up", "path": None, "labels": None}
    split = {"train": [0, 20], "holdout": [20, 24]}
    write_json(folder / "facts.json", facts | {"sha256": "0" * 64, "split": split})


def write_profile(name: str, *changes: float) -> None:
    """The base's losses, each slot's times a factor and a little noise."""
    base = np.geomspace(1, 0.0001, T)[:, None] * np.random.default_rng(0).uniform(0.9, 1.1, (T, 6))
    seed = sum(map(ord, name))
    noise = np.random.default_rng(seed).normal(1, 1e-3, base.shape)
    losses = base * noise * np.repeat(changes, [5, 10, 25])[:, None] if changes else base
    write_npz(Path(f"artifacts/profiles/{name}.npz"), train=losses, holdout=losses)


@pytest.fixture(autouse=True)
def study(project: Path) -> None:
    write_params(
        schedule={"name": "linear", "timesteps": T},
        recipes=RECIPES,
        further_recipes=["uniform", "near_noise"],
        slots={"finetune": [1, 3]},
        interference={"slot_recipes": ["slot", "slot_high"], "control": "uniform"},
    )
    write_data()
    write_profile("base")
    write_profile("uniform", 0.9, 0.9, 0.9)
    write_profile("near_noise", 1.4, 1.3, 0.8)
    for name, harm in (("slot", 1.2), ("slot_high", 3.0)):
        write_profile(f"{name}_1", 0.9, harm, harm)
        write_profile(f"{name}_3", harm, harm, 0.8)
    write_npz(Path("artifacts/profiles/floor.npz"), train=np.zeros((T, 0)))
    write_json(Path("artifacts/slots.json"), {"timesteps": T, "loss": "total", "slots": SLOTS})
    write_json(Path("results/metrics/slots.json"), {"total": SLOTS})
    for name in ("base", "uniform", "near_noise", "slot_1", "slot_high_1"):
        write_json(Path(f"results/metrics/train_{name}.json"), {"steps": 50, "images_seen": 100})
    write_json(Path("artifacts/samplers/uniform.json"), {"kind": "uniform", "timesteps": T})
    write_json(Path("artifacts/samplers/near_noise.json"), {"kind": "near_noise", "power": 2.0, "timesteps": T})


def run() -> Result:
    return CliRunner().invoke(main, [])


def rows(path: str) -> list[dict[str, str]]:
    return list(csv.DictReader(Path(path).read_text().splitlines()))


def test_the_report_says_what_was_put_in() -> None:
    result = run()
    assert result.exit_code == 0, result.output
    verdicts = json.loads(Path("results/verdicts.json").read_text())["verdicts"]
    assert verdicts == dict.fromkeys(
        (
            "losses_differ",
            "own_slot_improves",
            "other_slots_suffer",
            "near_noise_trades",
            "near_noise_neglects",
            "harm_grows_with_rate",
        ),
        "held",
    )
    summary = {row["trained_on"]: row for row in rows("results/interference_summary.csv")}
    assert list(summary) == ["slot", "slot_high", "uniform", "near_noise"]
    assert float(summary["slot_high"]["neglected_change_percent"]) == pytest.approx(200, abs=1)
    assert float(summary["slot_high"]["neglected_percent_a_step"]) == pytest.approx(4, abs=0.02)
    assert float(summary["slot"]["favoured_change_percent"]) == pytest.approx(-15, abs=0.2)
    assert (summary["uniform"]["favoured_change_percent"], summary["uniform"]["images"]) == ("", "100")
    matrix = [row for row in rows("results/interference.csv") if row["recipe"] == "slot" and row["split"] == "train"]
    changes = [float(row["change_percent"]) for row in matrix]
    assert changes == pytest.approx([-10, 20, 20, 20, 20, -20], abs=0.5)


def test_the_page_holds_every_picture_and_the_models_that_are_compared() -> None:
    run()
    page = Path("results/report.html").read_text()
    drawn = {path.stem for path in Path("results/pictures").glob("*.png")}
    shown = {"interference_summary", "loss_spaces", "slots", "samplers", "loss_changes"}
    assert drawn == shown | {"interference_slot", "interference_slot_high"}
    assert page.count("data:image/png") == len(drawn)
    for text in ("made-up, 20 training and 4 held-out images, 8×8×1", "6 draws a timestep", "near noise", "slot high"):
        assert text in page
    assert "Table 1" not in page  # the paper's slots are of 1000 timesteps


@pytest.mark.parametrize("path", ["artifacts/profiles/slot_high_3.npz", "results/metrics/train_slot_1.json"])
def test_a_missing_result_is_named_in_one_line(path: str) -> None:
    Path(path).unlink()
    result = run()
    assert (result.exit_code, result.output.count("\n")) == (1, 1)
    assert result.output.startswith(f"report_interference: {path}: missing")
    assert not Path("results/report.html").exists()


def test_slots_of_another_model_are_refused() -> None:
    write_json(Path("artifacts/slots.json"), {"timesteps": 50, "loss": "total", "slots": [[0, 24], [25, 49]]})
    result = run()
    assert result.output == (
        "report_interference: artifacts/slots.json: slots of 50 timesteps, the model has 40; compute them again\n"
    )
