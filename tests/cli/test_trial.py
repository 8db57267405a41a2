"""A smoke run: what is shrunk and what stays, its folder, and the user's file."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from commands import done, refused
from graph import ROOT
from harness.projects import run

from unequal.cli import estimate, trial
from unequal.settings.params import Params
from unequal.settings.strict import read_yaml

DEFAULT = ROOT / "presets/digits.yaml"
FLOW = ROOT / "presets/own-images-flow.yaml"


@pytest.mark.parametrize("file", [DEFAULT, FLOW], ids=lambda file: file.stem)
def test_counts_shrink_and_what_can_fail_stays(file: Path) -> None:
    before = read_yaml(file)
    small = trial.with_budgets(trial.shrunk(before, file), 0.0, file)
    for section in ("data", "network", "schedule", "groups", "runtime", "finetune_recipes"):
        assert small[section] == before[section]
    assert small["training"]["batch_size"] == before["training"]["batch_size"]
    assert set(small["recipes"]) == set(before["recipes"])
    assert all(recipe["images"] < before["recipes"][name]["images"] for name, recipe in small["recipes"].items())
    assert small["recipes"]["base"]["images"] == before["training"]["batch_size"]
    (slot,) = small["slots"]["finetune"]
    assert [one for one in small["scored_models"] if one.startswith("slot_")] == [f"slot_{slot}"]
    assert (small["sampling"]["steps"], small["evaluation"]["samples"]) == (5, 64)
    assert (small["pruning"]["expert"]["rounds"], small["profile"]["floor"]) == (1, 64)
    assert before == read_yaml(file)
    # A change that makes settings unsound is left out.
    assert trial.sound(before, {"sampling.steps": 5000}, file) == before
    assert trial.sound(before, {"sampling.steps": 7}, file)["sampling"]["steps"] == 7


def test_features_of_own_images_learn_as_long_as_in_the_run() -> None:
    # After 25,600 images a classifier of unbalanced classes may name no more than the largest, which is refused.
    file = ROOT / "presets/own-images-cpu.yaml"
    before = read_yaml(file)
    assert trial.shrunk(before, file)["extractor"] == before["extractor"]


def test_a_trial_has_a_folder_of_its_own_and_leaves_the_file(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "start_seconds", lambda *_: 1.0)
    monkeypatch.setattr(estimate, "TIMED_MACS", 1e7)
    ran: list[Any] = []
    monkeypatch.setattr(trial, "run_engine", lambda *arguments, log: ran.append(arguments))
    run(project, "git", "init", "--quiet")
    np.savez(project / "mine.npz", images=np.zeros((900, 8, 8), np.uint8), labels=np.arange(900) % 3)
    settings = read_yaml(DEFAULT)
    settings["data"] |= {"source": "array", "path": "mine.npz"}
    (project / "mine.yaml").write_text(text := yaml.safe_dump(settings))
    said = done("try", "mine.yaml", "--minutes", 0.01, "--cores", 1)
    assert ran == [(Path("tries/mine"), "snakemake", 1)]
    assert "mine.yaml: every stage ran" in said
    assert "mine.yaml: the smallest run of this file takes about " in said and " here, not 0.01 min; Ctrl-C " in said
    assert " expected, 0.01 min asked for)" in said
    monkeypatch.chdir("tries/mine")
    params = Params.read(Path("params.yaml"))
    assert Path(params.data.path or "").resolve() == project / "mine.npz"
    assert params.recipes["base"].images == params.training.batch_size
    assert "no_scm = true" in Path(".dvc/config").read_text(), "git ignores the folder, and with it its graph"
    assert params.scored_models == ("base", "mixed", "experts_unpruned", "experts_pruned")
    assert {"train_mixed", "prune"} <= (stages := read_yaml(Path("dvc.yaml"))["stages"]).keys()
    assert "finetune_slots" not in stages
    assert (project / "mine.yaml").read_text() == text


def test_unsound_settings_are_not_tried(project: Path) -> None:
    settings = read_yaml(DEFAULT)
    settings["training"]["batch_size"] = 0
    (project / "params.yaml").write_text(yaml.safe_dump(settings))
    assert ": training.batch_size: 0; allowed: above 0" in refused("try")
    assert not Path("tries").exists()
