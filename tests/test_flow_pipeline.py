"""The whole pipeline on a rectified flow, as a user runs it: a setting for the schedule, one for each prediction."""

import json
from pathlib import Path
from typing import Any

import pytest
from harness.projects import commit, run, tiny_copy

from unequal.artifacts.profiles import read_floor, read_losses

pytestmark = [pytest.mark.slow, pytest.mark.thorough, pytest.mark.usefixtures("warm_start")]

FLOW = {"name": "flow", "timesteps": 1000, "shift": 3.0}
CHANGES: dict[str, Any] = {
    "schedule": FLOW,
    "recipes.base.sampler": {"density": "logit_normal"},
    "recipes.base.loss_weight": {"kind": "learned_uncertainty"},
    "recipes.stratified.sampler": {"density": "mode", "scale": 1.29, "shift": 3.0, "normalised": True},
    "recipes.stratified.loss_weight": {"kind": "cosmap"},
    "profiled_models": ["base", "stratified", "experts_pruned"],
    "variants": ["base", "mixed", "experts_pruned"],
} | {f"recipes.{name}.prediction": "velocity" for name in ("base", "stratified", "slot", "expert")}


def test_every_stage_runs_on_a_flow(tmp_path: Path) -> None:
    project = tiny_copy(tmp_path / "project", CHANGES)
    commit(project, "flow")
    run(project, "snakemake", "--cores", "2")
    spec = json.loads((project / "artifacts/models/base/model.json").read_text())["spec"]
    assert (spec["schedule"], spec["prediction"]) == (FLOW, "velocity")
    assert (project / "artifacts/models/base/objective.safetensors").exists()
    groups = json.loads((project / "artifacts/groups.json").read_text())
    assert groups["shift"] == 3.0
    # Equal intervals of log-SNR are the same timesteps whatever the shift, and mirror images of each other.
    lengths = [one["last"] - one["first"] + 1 for one in groups["groups"]]
    assert lengths == lengths[::-1]
    assert sum(lengths) == 1000
    profiles = project / "artifacts/profiles"
    errors, floor = read_losses(profiles / "base.npz"), read_floor(profiles / "floor.npz")
    assert errors.shape == floor.shape
    assert errors.mean() > floor.mean()
    for variant in CHANGES["variants"]:
        assert (project / f"results/fid/{variant}.json").exists()
    assert (project / "results/report.html").exists()
