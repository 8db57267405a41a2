"""A small study run through both engines: a graph of its own, beside the pipeline's."""

from pathlib import Path

import pytest
import yaml
from engines_said import children, rules_of_dry_run, stages_of_repro, tracked_runs
from harness.projects import commit, edit, run, tiny_copy

pytestmark = [pytest.mark.slow, pytest.mark.thorough, pytest.mark.usefixtures("warm_start")]

STUDY = "studies/few_steps"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory, warm_start: None) -> Path:
    """A tiny study, run by Snakemake and recorded by DVC."""
    project = tiny_copy(tmp_path_factory.mktemp("study"), {}, STUDY)
    commit(project, "tiny")
    run(project, "snakemake", "--cores", "2", "--directory", STUDY)
    run(project, "python", "-m", "unequal", "record", f"{STUDY}/dvc.yaml")
    return project


def test_a_study_is_run_by_both_engines(study: Path) -> None:
    assert "Nothing to be done" in run(study, "snakemake", "--cores", "2", "-n", "--directory", STUDY)
    assert stages_of_repro(run(study, "dvc", "repro", f"{STUDY}/dvc.yaml")) == set()
    edit(study, {"evaluation.samples": 210}, f"{STUDY}/params.yaml")
    chosen = rules_of_dry_run(run(study, "snakemake", "--cores", "2", "-n", "--directory", STUDY))
    repeated = stages_of_repro(run(study, "dvc", "repro", f"{STUDY}/dvc.yaml"))
    assert {name.removeprefix("studies_few_steps_dvc_yaml_") for name in repeated} == chosen
    assert "score_ways_3_0" in chosen
    assert not {name for name in chosen if name.startswith("train_")}


def test_a_study_has_a_report_and_a_run_of_its_own(study: Path) -> None:
    page = (study / STUDY / "results" / "report.html").read_text(encoding="utf-8")
    assert "2M" in page
    parents = [one for one in tracked_runs(study) if one.info.run_name.startswith("few_steps-")]
    assert any("change_3_heun_uniform" in one.data.metrics for one in parents)
    assert not (study / STUDY / "mlflow.db").exists()


def test_the_pipeline_knows_nothing_of_studies(study: Path) -> None:
    assert "score_ways" not in run(study, "dvc", "stage", "list", "--name-only")
    assert "score_ways" not in run(study, "snakemake", "--cores", "2", "-n", "-F")


def test_an_experiment_beside_runs_and_counts_the_copys_code_and_is_tracked_with_all_others(study: Path) -> None:
    """`--temp` runs a copy of the project, of which the installed package knows nothing."""
    tracked = tracked_runs(study)
    commit(study, "before the experiment")
    page = study / "unequal" / "reporting" / "page.py"
    old, new = "escape(report.title)", 'escape(f"{report.title} by {__file__}")'
    text = page.read_text(encoding="utf-8")
    assert text.count(old) == 1
    page.write_text(text.replace(old, new), encoding="utf-8")
    changed = ("-S", f"{STUDY}/params.yaml:evaluation.samples=220")
    run(study, "dvc", "exp", "run", "--temp", "-n", "titled", *changed, f"{STUDY}/dvc.yaml")
    beside = [one for one in tracked_runs(study) if one.info.run_id not in {known.info.run_id for known in tracked}]
    assert "titled" in {one.info.run_name for one in beside}
    assert children(beside)
    refs = run(study, "git", "for-each-ref", "--format=%(refname)", "refs/exps").split()
    (ref,) = (name for name in refs if name.endswith("/titled"))
    assert f" by {study}/.dvc/tmp/exps/" in run(study, "git", "show", f"{ref}:{STUDY}/results/report.html")
    before, after = codes(study, "HEAD"), codes(study, ref)
    assert {name for name in after if after[name] != before[name]} == {"artifacts/code/report_few_steps.json"}


def codes(study: Path, revision: str) -> dict[str, str]:
    """Digests of the code's files that a revision's lock tells of."""
    lock = yaml.safe_load(run(study, "git", "show", f"{revision}:{STUDY}/dvc.lock"))
    deps = [dep for stage in lock["stages"].values() for dep in stage.get("deps", [])]
    return {dep["path"]: dep["md5"] for dep in deps if dep["path"].startswith("artifacts/code/")}
