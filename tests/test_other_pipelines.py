"""Whole pipelines with another network or another schedule, by settings alone."""

from pathlib import Path
from typing import Any

import pytest
from harness.projects import commit, run, tiny_copy

from unequal.evaluation.profiles import read_floor, read_losses
from unequal.runtime.files import read_json

pytestmark = [pytest.mark.slow, pytest.mark.thorough, pytest.mark.usefixtures("warm_start")]

TRANSFORMER = {"kind": "dit", "pretrained": None, "depth": 3, "width": 32, "heads": 4, "patch": 2}
FLOW = {"name": "flow", "timesteps": 1000, "shift": 3.0}
ON_A_FLOW: dict[str, Any] = {
    "schedule": FLOW,
    "recipes.base.sampler": {"density": "logit_normal"},
    "recipes.base.loss_weight": {"kind": "learned_uncertainty"},
    "recipes.stratified.sampler": {"density": "mode", "scale": 1.29, "shift": 3.0, "normalised": True},
    "recipes.stratified.loss_weight": {"kind": "cosmap"},
    "profiled_models": ["base", "stratified", "experts_pruned"],
    "scored_models": ["base", "mixed", "experts_pruned"],
} | {f"recipes.{name}.prediction": "velocity" for name in ("base", "stratified", "slot", "expert")}


def pipeline(folder: Path, changes: dict[str, Any]) -> Path:
    project = tiny_copy(folder / "project", changes)
    commit(project, "other settings")
    run(project, "snakemake", "--cores", "2")
    return project


def test_a_transformer_is_trained_pruned_and_reported(tmp_path):
    variants = ["base", "stratified", "experts_unpruned", "experts_pruned"]
    project = pipeline(tmp_path, {"network": TRANSFORMER, "scored_models": variants})
    models = project / "artifacts/models"
    records = sorted(models.rglob("model.json"))
    assert len(records) >= 6
    assert {read_json(record)["backbone"] for record in records} == {"dit"}
    pruned = [read_json(one)["macs"] for one in sorted(models.glob("experts_pruned/group_*/model.json"))]
    first, last = (macs / read_json(models / "base/model.json")["macs"] for macs in pruned)
    assert first < 0.8 and last <= 1
    page = (project / "results/report.html").read_text(encoding="utf-8")
    assert all(variant.replace("_", " ") in page for variant in variants)


def test_every_stage_runs_on_a_flow(tmp_path):
    project = pipeline(tmp_path, ON_A_FLOW)
    spec = read_json(project / "artifacts/models/base/model.json")["spec"]
    assert (spec["schedule"], spec["prediction"]) == (FLOW, "velocity")
    assert (project / "artifacts/models/base/objective.safetensors").exists()
    groups = read_json(project / "artifacts/groups.json")
    assert groups["shift"] == 3.0
    # Equal intervals of log-SNR are the same timesteps whatever the shift, and mirror images of each other.
    lengths = [one["last"] - one["first"] + 1 for one in groups["groups"]]
    assert (lengths, sum(lengths)) == (lengths[::-1], 1000)
    profiles = project / "artifacts/profiles"
    errors, floor = read_losses(profiles / "base.npz"), read_floor(profiles / "floor.npz")
    assert errors.shape == floor.shape and errors.mean() > floor.mean()
    assert all((project / f"results/fid/{variant}.json").exists() for variant in ON_A_FLOW["scored_models"])
    assert (project / "results/report.html").exists()
