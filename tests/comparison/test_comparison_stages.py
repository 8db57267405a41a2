"""A block from its base to its endpoints, and a pilot, as programs."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest
import yaml
from click.testing import CliRunner
from small_inputs import PROXY
from specs import recipe_of
from stage_project import write_params

from stages import build_extractor
from unequal.comparison.settings import Endpoint
from unequal.comparison.stages import measure, pilot_fresh, train_base, train_continued, train_fresh
from unequal.models.folder import load_record

pytestmark = pytest.mark.slow

CARRIED = {"weights": "last", "moments": "carried"}
BASE: dict[str, Any] = recipe_of(images=32, keep_state=True, snapshots=(16,)).model_dump(mode="json")
PLAN: dict[str, Any] = {
    "groups": {"kind": "snr", "count": 2, "min_ratio": 0.5},
    "pruning": None,
    "start": "base",
    "recipe": {**BASE, "images": 16, "snapshots": [], "keep_state": False, "sampler": {"density": "slot"}},
}
SEARCH = PROXY | {"start": [{"method": "magnitude"}]}
BLOCKS = {
    "question": "Does it pay?",
    "seeds": [3, 4],
    "subject": "digits",
    "arms": {"bases": ["base"], "fresh": [], "heads": [], "continued": ["split", "again", "late"]},
    "batch_sizes": {},
    "confirm": {"seeds": []},
    "comparisons": [{"arm": "late", "control": "split"}],
    "repeated": {"arm": "again", "control": "split"},
    "endpoints": dict.fromkeys(get_args(Endpoint), 0.5),
}


@pytest.fixture(autouse=True)
def study(write_project):
    write_project(
        {},
        {},
        recipes={"base": BASE, "arm": BASE},
        plans={"split": PLAN, "again": PLAN, "late": PLAN | {"from_images": 16}, "decided": PLAN | {"pruning": SEARCH}},
        comparison=BLOCKS,
        pilot={
            "arms": {"fresh": ["arm"], "continued": ["split"]},
            "tries": {"half": {"lr": 5.0e-4}, "carried": {"warm_start": CARRIED}},
            "seeds": [7, 8],
            "share": 0.5,
            "chosen": {"others": "half"},
        },
        profile={"images": 2, "batch_size": 16, "floor": "none"},
        extractor={"kind": "classifier", "weights": None, "features": 4, "images": 1280, "batch_size": 32, "lr": 1e-2},
        sampling={"steps": 3, "spacing": "uniform", "eta": 0.0, "clip": True, "batch_size": 16},
        evaluation={"samples": 20, "seeds": [0], "against": "holdout", "kid_subset": 6, "allow_singular": False},
    )


def run(program: Any, *options: Any) -> None:
    result = CliRunner().invoke(program.main, list(map(str, options)))
    assert result.exit_code == 0, result.output


def figures(path: str) -> Any:
    return json.loads(Path(path).read_text())


def test_a_block_comes_to_its_endpoints():
    run(build_extractor)
    run(train_base, "--base", "base", "--block", 3)
    for arm in ("split", "late"):
        run(train_continued, "--arm", arm, "--block", 3)
        run(measure, "--arm", arm, "--block", 3)
    run(measure, "--arm", "base", "--block", 3)
    split, late, base = (figures(f"results/endpoints/{arm}/block_3.json") for arm in ("split", "late", "base"))
    assert set(split["endpoints"]) == set(get_args(Endpoint))
    assert set(split["scores"]) == {"fid_half", "kid", "precision", "recall"}
    assert (base["costs"]["images"], split["costs"]["images"], late["costs"]["images"]) == (32, 48, 32)
    assert load_record(Path("artifacts/models/late/block_3/group_1")).inherited_images == 16
    assert split["conditions"] == base["conditions"]
    assert split["conditions"]["held_out_half"] == "report"
    assert [point["images"] for point in base["path"]] == [16, 32]
    assert split["costs"]["training_seconds"] > 0


def test_recipes_of_a_block_share_its_first_weights_alone(monkeypatch):
    begun = []

    def train(place: Any, job: Any, start: Any, sampler: Any) -> Any:
        begun.append((job.seed, start.net.state_dict()["conv_in.weight"]))
        return SimpleNamespace(job=job)

    monkeypatch.setattr("unequal.comparison.training.train", train)
    for program in (train_base, train_fresh):
        monkeypatch.setattr(f"{program.__name__}.write_results", lambda *_: None)
        monkeypatch.setattr(f"{program.__name__}.costs_of", lambda *_: {})
    monkeypatch.setattr(f"{train_fresh.__name__}.learned_weighting", lambda *_: {})
    run(train_base, "--base", "base", "--block", 3)
    run(train_fresh, "--arm", "arm", "--block", 3)
    run(train_fresh, "--arm", "arm", "--block", 4)
    assert len({seed for seed, _ in begun}) == 3
    assert (begun[0][1] == begun[1][1]).all()
    assert (begun[1][1] != begun[2][1]).any()


def test_along_a_training_fid_is_that_of_the_same_half_of_the_samples():
    run(build_extractor)
    run(train_fresh, "--arm", "arm", "--block", 3)
    run(measure, "--arm", "arm", "--block", 3)
    found = figures("results/endpoints/arm/block_3.json")
    assert [point["images"] for point in found["path"]] == [16, 32]
    assert found["path"][1]["fid"] == found["scores"]["fid_half"] != found["endpoints"]["fid"]
    # Measured by so many samples alone, the same model has that FID, and the same losses.
    settings = yaml.safe_load(Path("params.yaml").read_text())
    settings["evaluation"]["samples"] //= 2
    write_params(**settings)
    run(measure, "--arm", "arm", "--block", 3)
    half = figures("results/endpoints/arm/block_3.json")
    assert half["endpoints"]["fid"] == pytest.approx(found["path"][1]["fid"])
    assert half["curve"]["loss"] == found["path"][1]["curve"]


def test_an_arm_with_fresh_weights_is_piloted():
    settings = yaml.safe_load(Path("params.yaml").read_text())
    del settings["pilot"]["tries"]["carried"]
    write_params(**settings)
    run(build_extractor)
    run(pilot_fresh, "--arm", "arm", "--block", 7)
    found = figures("results/pilot/arm/block_7.json")["tries"]["half"]
    assert found["costs"]["images"] == 16
    assert found["half"] != found["endpoints"]
    path = [(point["images"], point["fid"]) for point in found["path"]]
    assert path == [(8, found["half"]["fid"]), (16, found["endpoints"]["fid"])]
