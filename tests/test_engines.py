"""A small pipeline run through both engines, as a user runs it: real stages, real data, tiny budgets."""

import os
import re
from zipfile import ZipFile

import pytest
from engines_said import children, rules_of_dry_run, stages_of_repro, tracked_runs
from filelock import FileLock
from harness.projects import edit, environment_of, run

from unequal.pipeline.engines import ALONE
from unequal.pipeline.gpus import LENT, VISIBLE
from unequal.report.captions import CAPTIONS, FIRST_SCREEN

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("warm_start")]


@pytest.fixture(scope="module")
def project(tiny_pipeline, tmp_path_factory):
    return tiny_pipeline.copied(tmp_path_factory.mktemp("engines") / "project")


@pytest.fixture(scope="module")
def forced(project):
    """Output of Snakemake's dry run of all stages."""
    return run(project, "snakemake", "--cores", "2", "-n", "-F")


def test_nothing_is_left_to_do_for_either_engine(project):
    assert "Nothing to be done" in run(project, "snakemake", "--cores", "2", "-n")
    assert stages_of_repro(run(project, "dvc", "repro")) == set()


def test_a_second_snakemake_in_a_folder_is_refused(project):
    with FileLock(project / ALONE):
        said = run(project, "snakemake", "--cores", "2", ok=False)
        assert "Nothing to be done" in run(project, "snakemake", "--cores", "2", "-n")
    assert "another Snakemake is at work in this folder; wait until it ends, or stop it" in said
    assert "Traceback" not in said


def test_every_stage_waits_for_the_gate(forced):
    inputs = dict(re.findall(r"^(?:local)?rule (\w+):\n +input: (.*)$", forced, re.MULTILINE))
    assert len(inputs) > 10
    assert [name for name, paths in inputs.items() if "artifacts/params_checked.json" not in paths] == ["check_params"]


def test_every_stage_left_a_log_a_benchmark_and_a_child_of_one_pipeline_run(project, forced):
    rules, runs = rules_of_dry_run(forced), tracked_runs(project)
    assert rules == {path.stem for path in (project / "logs").glob("*.log")}
    assert rules == {path.name.removesuffix(".benchmark.tsv") for path in (project / "logs").glob("*.tsv")}
    scored = {path.stem for path in (project / "results/scores").glob("*.json")}
    assert (len(children(runs)), len(runs)) == (len(rules), len(rules) + 1 + len(scored)), "a parent, and a run a model"
    assert all(one.info.status == "FINISHED" for one in runs)


def test_every_stage_that_computes_takes_one_of_the_gpus(project, tmp_path):
    (tool := tmp_path / "nvidia-smi").touch(0o755)
    machine = {"PATH": f"{tool.parent}{os.pathsep}{environment_of(project)['PATH']}", VISIBLE: "0,1"}
    said = run(project, "snakemake", "--cores", "2", "-n", "-p", "-F", environment=machine)
    blocks = re.split(r"^(?:local)?rule (\w+):$", said.partition("Reasons:")[0], flags=re.MULTILINE)[1:]
    jobs = dict(zip(blocks[::2], blocks[1::2], strict=True))
    takes = {name for name, job in jobs.items() if "local_gpu=1" in job and f"env {LENT}=0,1 " in job}
    assert {"train_base", "build_extractor", "profile_floor", "evaluate_fid_base"} <= takes
    assert {"check_params", "prepare_data", "report"} <= jobs.keys() - takes
    assert not any(LENT in job for name, job in jobs.items() if name not in takes)


def test_results_can_be_shown(project):
    assert "results/scores/base.json" in run(project, "dvc", "metrics", "show")
    run(project, "unequal", "plots")
    plots = (project / "dvc_plots" / "index.html").read_text(encoding="utf-8")
    assert "<script src" not in plots
    assert all(shown in plots for shown in ("results_training_base_csv", "FID_of_models", "vegaEmbed = "))
    assert "var spec = {};" not in plots  # a plot without its figures
    page = (project / "results" / "report.html").read_text(encoding="utf-8")
    assert "<script src" not in page
    assert "http://" not in page.replace("http://www.w3.org", "")


@pytest.mark.thorough
def test_snakemakes_own_report_has_captions(project):
    run(project, "snakemake", "--cores", "2", "--report", "report.zip")
    with ZipFile(project / "report.zip") as archive:
        (report,) = (name for name in archive.namelist() if name.count("/") == 1 and name.endswith("report.html"))
        assert "<strong>Samples of all variants.</strong>" in archive.read(report).decode()


def test_every_picture_of_a_run_has_a_caption(project):
    drawn = {file.stem for file in (project / "results" / "pictures").glob("*.png")}
    assert {"overview_samples", "fid_cost", "samples"} <= drawn <= {*FIRST_SCREEN, *CAPTIONS}


def test_both_engines_choose_the_same_stages_after_an_edit(project):
    edit(project, {"evaluation.samples": 110})
    chosen = rules_of_dry_run(run(project, "snakemake", "--cores", "2", "-n"))
    repeated = stages_of_repro(run(project, "dvc", "repro"))
    assert "evaluate_fid_base" in chosen
    assert "check_params" in chosen
    assert "train_base" not in chosen
    assert chosen == repeated


@pytest.mark.parametrize(
    "command",
    [pytest.param(("dvc", "repro"), marks=pytest.mark.thorough), ("snakemake", "--cores", "2")],
    ids=["dvc", "snakemake"],
)
def test_a_bad_setting_stops_everything_in_one_line(project, command):
    before = (project / "params.yaml").read_text(encoding="utf-8")
    runs = len(tracked_runs(project))
    try:
        edit(project, {"training": {"batch_sise": 128}})
        said = run(project, *command, ok=False)
    finally:
        (project / "params.yaml").write_text(before, encoding="utf-8")
    assert ": training.batch_sise: unknown key; did you mean `batch_size`?" in said
    assert "Traceback" not in said
    # The gate itself may have logged that it failed; no other stage has begun.
    assert {one.data.tags.get("stage", "check_params") for one in tracked_runs(project)[: -runs or None]} <= {
        "check_params"
    }
