"""A small study run through both engines: a graph of its own, beside the pipeline's."""

import json
from pathlib import Path

import pytest
import yaml
from engines_said import rules_of_dry_run, stages_of_repro, tracked_runs

from benchmarks.projects import commit, edit, run, tiny_copy

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("warm_start")]

STUDY = "studies/time_to_quality/digits"
TINY_STUDY = {
    "training.log_every": 2,
    "training.checkpoint_every": 4,
    "grid.recipes": ["uniform", "curriculum"],
    "grid.batches": ["32x1"],
    "grid.seeds": [0, 1],
    "time_to_quality": {"baselines": {"curriculum": "uniform"}, "rivals": {}},
    "extractor.images": 6400,
    "sampling.steps": 5,
    "evaluation.samples": 100,
    "evaluation.kid_subset": 50,
}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory, warm_start: None) -> Path:
    """A tiny study, run by Snakemake and recorded by DVC."""
    project = tiny_copy(tmp_path_factory.mktemp("study"), {})
    commit(project, "tiny")
    recipes = yaml.safe_load((project / STUDY / "params.yaml").read_text(encoding="utf-8"))["recipes"]
    short = json.loads(json.dumps({name: recipes[name] for name in ("uniform", "curriculum")}))
    for recipe in short.values():
        recipe |= {"images": 1280, "snapshots": [640]}
        recipe["optimizer"]["warmup_images"] = 640
    short["curriculum"]["sampler"]["ramp_images"] = 640
    edit(project, {**TINY_STUDY, "recipes": short}, f"{STUDY}/params.yaml")
    run(project, "snakemake", "--cores", "2", "--directory", STUDY)
    run(project, "python", "-m", "unequal.tools.record", f"{STUDY}/dvc.yaml")
    return project


def test_a_study_is_run_by_both_engines(study: Path) -> None:
    assert "Nothing to be done" in run(study, "snakemake", "--cores", "2", "-n", "--directory", STUDY)
    assert stages_of_repro(run(study, "dvc", "repro", f"{STUDY}/dvc.yaml")) == set()
    edit(study, {"evaluation.samples": 110}, f"{STUDY}/params.yaml")
    chosen = rules_of_dry_run(run(study, "snakemake", "--cores", "2", "-n", "--directory", STUDY))
    repeated = stages_of_repro(run(study, "dvc", "repro", f"{STUDY}/dvc.yaml"))
    assert {name.removeprefix("studies_time_to_quality_digits_dvc_yaml_") for name in repeated} == chosen
    assert "evaluate_trial_uniform_32x1_0" in chosen
    assert not {name for name in chosen if name.startswith("train_trial")}


def test_a_study_has_a_report_and_a_run_of_its_own(study: Path) -> None:
    page = (study / STUDY / "results" / "report.html").read_text(encoding="utf-8")
    assert "Curriculum beats uniform at batch 32x1" in page
    parents = [one for one in tracked_runs(study) if one.info.run_name.startswith("time_to_quality/digits-")]
    assert parents
    assert any(name.startswith("fid_curriculum_batch_32x1") for name in parents[0].data.metrics)
    assert not (study / STUDY / "mlflow.db").exists()


def test_the_pipeline_knows_nothing_of_studies(study: Path) -> None:
    assert "train_trial" not in run(study, "dvc", "stage", "list", "--name-only")
    assert "train_trial" not in run(study, "snakemake", "--cores", "2", "-n", "-F")
