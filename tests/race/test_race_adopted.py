"""The recipe of a race in the pipeline's params.yaml: what the race decides changes, and comments stay."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from one_line import refusal

from unequal.cli.editing import edited
from unequal.race.adopting import adopt_into
from unequal.race.bracket import bracket, bracket_text, rungs
from unequal.race.results import as_rows
from unequal.race.run import prepare, race_of
from unequal.race.standing import Candidate
from unequal.settings.params import Params

ROOT = Path(__file__).parents[2]
DPM = {"steps": 20, "solver": "dpm_solver_2m", "spacing": "log_snr", "eta": 0.0, "clip": True, "batch_size": 500}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The pipeline's own settings with a race that Min-SNR has won at half of its learning rate."""
    text = (ROOT / "params.yaml").read_text(encoding="utf-8")
    (tmp_path / "params.yaml").write_text(text, encoding="utf-8")
    shutil.copy(ROOT / "dvc.yaml", tmp_path)
    recipe = yaml.safe_load(text)["recipes"]["base"]
    section: dict[str, Any] = {
        "recipe": recipe | {"images": 32000},
        "control": "uniform",
        "arms": {"uniform": {}, "min_snr": {"loss_weight": {"kind": "min_snr", "gamma": 5.0}}, "v": {}},
        "rates": [0.5, 1.0],
        "endpoint": {"fid": 0.05},
        "samplings": {"dpm": DPM},
        "short": None,
        "whole": {"keep": None, "seeds": [0, 1]},
        "confirm": {"seeds": [200, 201]},
    }
    section["arms"]["v"] = {"prediction": "v_prediction"}
    (tmp_path / "params.yaml").write_text(edited(tmp_path / "params.yaml", {"race": section}), encoding="utf-8")
    prepare(tmp_path)
    win(tmp_path, "min_snr")
    return tmp_path


def win(folder: Path, winner: str) -> None:
    """Write the standing of whole trainings in which an arm leads at half of its rate."""
    race = race_of(folder)
    results = {
        Candidate(arm, rate): dict.fromkeys((0, 1), 1.0 - 0.5 * (arm == winner and rate == 0.5))
        for arm in race.arms
        for rate in race.rates
    }
    (folder / "race/bracket.yaml").write_text(bracket_text(bracket(race, rungs(race, {}))), encoding="utf-8")
    (folder / "results/race/standing").mkdir(parents=True, exist_ok=True)
    document = {"next": "confirm", "results": as_rows({"whole": results})}
    (folder / "results/race/standing/whole.json").write_text(json.dumps(document), encoding="utf-8")


def test_the_recipe_takes_what_the_race_has_decided(folder: Path) -> None:
    before = Params.read(folder / "params.yaml").recipes["base"]
    keys = adopt_into(folder, "base")
    after = Params.read(folder / "params.yaml")
    recipe = after.recipes["base"]
    solver = {"sampling.steps", "sampling.spacing", "sampling.solver"}
    assert set(keys) == solver | {"recipes.base.loss_weight", "recipes.base.optimizer.lr"}
    assert (recipe.loss_weight.kind, recipe.optimizer.lr) == ("min_snr", before.optimizer.lr / 2)
    assert (recipe.images, recipe.optimizer.warmup_images) == (before.images, before.optimizer.warmup_images)
    assert (after.sampling.solver, after.sampling.steps) == ("dpm_solver_2m", 20)
    text = (folder / "params.yaml").read_text(encoding="utf-8")
    assert "# all timesteps, from fresh weights" in text
    assert "# of precision and recall" in text
    assert adopt_into(folder, "base") == []


def test_recipes_that_train_the_base_on_follow_its_prediction(folder: Path) -> None:
    win(folder, "v")
    adopt_into(folder, "base")
    recipes = Params.read(folder / "params.yaml").recipes
    assert recipes.pop("mixed").prediction == "mixed"
    assert {one.prediction for one in recipes.values()} == {"v_prediction"}


def test_a_recipe_that_others_cannot_follow_is_refused_and_the_file_stays(folder: Path) -> None:
    win(folder, "v")
    before = (folder / "params.yaml").read_text(encoding="utf-8")
    assert "it trains the base on" in refusal(adopt_into, folder, "longer")
    line = refusal(adopt_into, folder, "bases")
    assert line.startswith("--recipe: 'bases'; ") and "params.yaml has: base, mixed" in line
    assert (folder / "params.yaml").read_text(encoding="utf-8") == before
