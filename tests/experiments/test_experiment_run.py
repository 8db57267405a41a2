"""An experiment from its declaration to its page, by the command."""

import csv
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import done, refused
from in_process import Engine
from params_files import edited
from refusals import without_code

from unequal.experiments.judging import judge
from unequal.pipeline.attempt import SNAKEMAKE
from unequal.runtime.files import read_json

ROOT = Path(__file__).parents[2]
TINY = Path(__file__).with_name("tiny") / "params.yaml"
#: Two variants that differ in sampling and one that diverges at one of its rates, with trainings of a few steps.
SMALL: dict[str, Any] = {
    "recipes.base.images": 256,
    "experiment.variants": {
        "epsilon": {},
        "few_steps": {"sampling.steps": 3},
        "v": {"recipes.base.prediction": "v_prediction"},
        "wild": {"recipes.base.optimizer.lr": 1e30, "training.gradient_clip": None},
    },
    "experiment.contrasts": [["few_steps", "epsilon"], ["v", "epsilon"], ["wild", "epsilon"]],
    "experiment.rates": {"factors": [1e-33, 1.0], "seeds": [10], "share": 0.5},
}


def rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


@pytest.mark.slow
def test_a_small_experiment_runs_within_this_process(project, monkeypatch):
    folder = project / "mine"
    folder.mkdir()
    edited(TINY, SMALL | {"experiment.rates": None}, folder)
    monkeypatch.setattr("unequal.pipeline.running.run_engine", engine := Engine())
    monkeypatch.setattr("unequal.pipeline.stage.started_with", without_code)
    monkeypatch.setenv(SNAKEMAKE, "in-process")
    said = done("compare", folder)
    assert {"train_epsilon_0", "train_v_1", "measure_few_steps_1"} <= set(engine.ran)
    assert "train_few_steps_0" not in engine.ran
    assert "diverged: wild" in said
    ledger, contrasts = rows(folder / "results/trainings.csv"), rows(folder / "results/contrasts.csv")
    assert {(row["variant"], row["seed"]) for row in ledger} == {
        (variant, seed) for variant in ("epsilon", "few_steps", "v", "wild") for seed in "01"
    }
    by_variant = {row["variant"]: row for row in ledger if row["seed"] == "0"}
    assert by_variant["few_steps"]["loss_over_timesteps"] == by_variant["epsilon"]["loss_over_timesteps"]
    assert by_variant["few_steps"]["fid"] != by_variant["epsilon"]["fid"]
    assert (by_variant["epsilon"]["images"], by_variant["wild"]["fid"]) == ("256", "")
    assert {(row["variant"], row["endpoint"]) for row in contrasts} == {
        (variant, endpoint) for variant in ("few_steps", "v") for endpoint in ("loss_over_timesteps", "fid")
    }
    judged = judge([row for row in ledger if row["variant"] != "wild"], [("v", "epsilon"), ("few_steps", "epsilon")],
                   {"fid": 0.1})  # fmt: skip
    assert {row["verdict"] for row in contrasts if row["endpoint"] == "fid"} == {one.verdict for one in judged}
    record = read_json(folder / "results/record.json")
    assert record["data"]["sha256"]
    assert record["hours"] >= 0
    assert (folder / "results/report.html").exists()
    assert (folder / "results/pictures/samples.png").exists()

    engine.ran.clear()
    edited(TINY, SMALL | {"experiment.rates": None, "experiment.endpoints": {"fid": 9.0}}, folder)
    done("compare", folder)
    assert set(engine.ran) <= {"check_params"}, "what is asked trains nothing"
    engine.ran.clear()
    monkeypatch.setattr("unequal.pipeline.running.run_engine", None)
    (folder / "results/contrasts.csv").unlink()
    done("compare", folder, "--judge")
    assert {row["endpoint"] for row in rows(folder / "results/contrasts.csv")} == {"fid"}


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.usefixtures("warm_start")
@pytest.mark.parametrize("engine", ["snakemake", "dvc"])
def test_an_experiment_with_every_kind_of_variant_runs_by_both_engines(tmp_path, engine):
    def compare(*options: str) -> str:
        words = [sys.executable, "-m", "unequal", "compare", str(tmp_path), "--engine", engine, *options]
        ended = subprocess.run(
            words, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        assert ended.returncode == 0, ended.stdout
        return ended.stdout

    (tmp_path / "params.yaml").write_bytes(TINY.read_bytes())
    compare()
    ledger = rows(tmp_path / "results/trainings.csv")
    assert {row["variant"] for row in ledger} == {"epsilon", "v", "few_steps", "joint", "experts", "three_heads"}
    assert {row["images"] for row in ledger if row["variant"] == "joint" and row["role"] == "judged"} == {"1920"}
    assert len(rows(tmp_path / "results/contrasts.csv")) == 8
    assert "rate" in {row["role"] for row in ledger}
    again = compare("--dry-run")
    assert "Nothing to be done" in again if engine == "snakemake" else "Running stage 'train" not in again


def test_a_dry_run_leaves_a_folder_as_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr("unequal.pipeline.running.run_engine", lambda *_, **__: None)
    (tmp_path / "params.yaml").write_bytes(TINY.read_bytes())
    assert "Nothing was trained" in done("compare", tmp_path, "--dry-run")
    assert [one.name for one in tmp_path.iterdir()] == ["params.yaml"]


def test_a_folder_without_a_declaration_is_refused(tmp_path):
    assert "no params.yaml; allowed: a folder with the declaration" in refused("compare", tmp_path)
    (tmp_path / "params.yaml").write_bytes((ROOT / "presets/digits.yaml").read_bytes())
    assert "experiment: missing" in refused("compare", tmp_path)
