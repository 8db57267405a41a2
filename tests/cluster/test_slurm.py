"""The pipeline as jobs of a real Slurm, with a real tracking server: what a cluster's user does and sees."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

import one_node
import psutil
import pytest
from engines_said import stages_of_repro
from harness.projects import commit, copy_of_repository, edit, keep_stages, run, tiny_copy
from harness.server import tracking_server
from harness.starting import Commands, log_of
from harness.traces import Stage, made_by
from mlflow import MlflowClient

pytestmark = pytest.mark.slow


def on_slurm(test):
    """Start a real one, where it is installed."""
    without = pytest.mark.skipif(one_node.missing() is not None, reason=str(one_node.missing()))
    return pytest.mark.slurm(without(test))


#: Enough for jobs that wait for each other, and for jobs that need not: a job starts Snakemake twice.
STAGES = ("code", "check_params", "prepare_data", "build_extractor", "train_base")
PROFILE = "profiles/slurm/config.yaml"
#: A training of many short steps, some ten seconds long, that saves its state only when it is asked to stop.
LONG = {"recipes.base.images": 6400, "training.batch_size": 16}
LONG |= {"training.log_every": 10, "training.checkpoint_every": 100_000}
MODEL = Stage("train_base", (), ("artifacts/models/base",))
#: Looks at Slurm's queue every two seconds. The plugin waits ten seconds longer after each look that finds nothing new.
LOOKING_OFTEN = """
import sys

if "--profile" in sys.orig_argv:
    from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor

    RemoteExecutor.next_seconds_between_status_checks = property(lambda executor: 2, lambda executor, seconds: None)
"""
#: Longest wait for a job to get somewhere.
PATIENCE_SECONDS = 300


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with one_node.slurm(tmp_path_factory.mktemp("slurm") / "node") as environment:
        yield environment


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with tracking_server(tmp_path_factory.mktemp("server")) as uri:
        yield uri


def wait_for(reached, what: str) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not reached():
        assert time.monotonic() < end, f"waited {PATIENCE_SECONDS} s for {what}"
        time.sleep(0.5)


def project_of(folder: Path) -> Path:
    """A tiny project of a few stages whose profile names the node's partition, as a user of it would."""
    project = tiny_copy(folder, {"profiled_models": ["base"]})
    keep_stages(project, STAGES)
    mine = {
        "default-resources.slurm_partition": one_node.PARTITION,
        "slurm-no-account": True,
        "slurm-status-command": "squeue",
        "slurm-init-seconds-before-status-checks": 2,
        "seconds-between-status-checks": 2,
        "latency-wait": 5,
    }
    edit(project, mine, PROFILE)
    commit(project, "tiny")
    return project


def jobs_of(environment: dict[str, str]) -> list[dict[str, str]]:
    said = subprocess.run(
        ["scontrol", "--oneliner", "show", "job"], env=environment, capture_output=True, text=True, check=True
    ).stdout
    return [
        dict(pair.split("=", 1) for pair in re.findall(r"\S+=\S*", line))
        for line in said.splitlines()
        if "JobId=" in line
    ]


def megabytes_of(job: dict[str, str]) -> int:
    amount, unit = re.findall(r"mem=([\d.]+)([MG])", job["TRES"])[0]
    return round(float(amount) * {"M": 1, "G": 1024}[unit])


def rule_of(job: dict[str, str]) -> str:
    return job.get("Comment", "").removeprefix("rule_")


@pytest.fixture(scope="module")
def environment(tmp_path_factory, cluster, server):
    hook = tmp_path_factory.mktemp("hook")
    (hook / "sitecustomize.py").write_text(LOOKING_OFTEN)
    return cluster | {"MLFLOW_TRACKING_URI": server, "HOOK": str(hook)}


def next_to(project: Path, environment: dict[str, str]) -> dict[str, str]:
    return environment | {"PYTHONPATH": f"{environment['HOOK']}{os.pathsep}{project}"}


@pytest.fixture(scope="module")
def warm(warm_place):
    return {"PATH": f"{warm_place}{os.pathsep}{os.environ['PATH']}"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory, environment, warm):
    project = project_of(tmp_path_factory.mktemp("cluster") / "project")
    run(project, "snakemake", "--profile", "profiles/slurm", environment=next_to(project, environment) | warm)
    return project


@on_slurm
def test_the_pipeline_ran_as_jobs_side_by_side_with_what_its_stages_ask_for(finished, cluster):
    jobs = {rule_of(job): job for job in jobs_of(cluster)}
    training = jobs["train_base"]
    assert training["JobState"] == "COMPLETED"
    assert training["TresPerJob"] == "gres:gpu:1"
    assert training["TimeLimit"] == "1-00:00:00"
    assert megabytes_of(training) == 8000
    assert training["CPUs/Task"] == "1"
    assert "TresPerJob" not in jobs["prepare_data"]
    assert all(job["Partition"] == one_node.PARTITION for job in jobs.values())
    spans = sorted((job["StartTime"], job["EndTime"]) for job in jobs.values())
    assert any(later[0] < earlier[1] for earlier, later in pairwise(spans))


@on_slurm
def test_all_stages_are_runs_on_the_server(finished, server):
    client = MlflowClient(server)
    experiment = client.get_experiment_by_name("unequal")
    runs = client.search_runs([experiment.experiment_id], max_results=1000)
    children = [one for one in runs if "mlflow.parentRunId" in one.data.tags]
    logs = {path.stem for path in (finished / "logs").glob("*.log")}
    assert len(children) == len(logs)
    assert len(runs) - len(children) == 1
    assert all(one.info.status == "FINISHED" for one in runs)
    assert not (finished / "mlflow.db").exists()


@pytest.mark.thorough
@on_slurm
def test_both_engines_find_nothing_left_to_do(finished, warm):
    assert "Nothing to be done" in run(finished, "snakemake", "--cores", "2", "-n", environment=warm)
    assert stages_of_repro(run(finished, "dvc", "repro", environment=warm)) == set()


def cancel(job: str, project: Path, environment: dict[str, str]) -> None:
    subprocess.run(["scancel", job], env=environment, check=True)


def run_out_of_time(job: str, project: Path, environment: dict[str, str]) -> None:
    subprocess.run(["scontrol", "update", f"jobid={job}", "EndTime=now+1"], env=environment, check=True)
    with held(project):
        wait_for(lambda: {one["JobId"]: one for one in jobs_of(environment)}[job]["JobState"] != "RUNNING", "its end")


@contextmanager
def held(project: Path) -> Iterator[None]:
    """The training of a project is stopped, and goes on afterwards."""
    words = ["-m", "stages.train_base"]
    (training,) = (
        one for one in psutil.process_iter(["cmdline", "cwd"])
        if (one.info["cmdline"] or [])[1:] == words and one.info["cwd"] == str(project)
    )  # fmt: skip
    training.suspend()
    try:
        yield
    finally:
        with suppress(psutil.NoSuchProcess):  # Slurm wakes what it ends
            training.resume()


def trainings(environment: dict[str, str], earlier: set[str]) -> list[dict[str, str]]:
    jobs = [job for job in jobs_of(environment) if rule_of(job) == "train_base" and job["JobId"] not in earlier]
    return sorted(jobs, key=lambda job: int(job["JobId"]))


def lines_of_the_log(project: Path) -> int:
    return sum(log.read_bytes().count(b"\n") for log in (project / "work").glob("train_base-*/training.jsonl"))


@pytest.mark.thorough
@on_slurm
def test_a_job_that_is_ended_saves_first_and_goes_on_by_retry_and_without_its_login_node(
    tmp_path, finished, cluster, environment
):
    """No state is saved but by the jobs that Slurm ends: without it, the next one would begin anew."""
    project = shutil.copytree(finished, tmp_path / "project", symlinks=True)
    edit(project, LONG)
    starter = Commands(project, next_to(project, environment))
    earlier = {job["JobId"] for job in jobs_of(cluster)}
    command = ("snakemake", "--profile", "profiles/slurm", "artifacts/models/base")
    kept: list[bytes] = []

    def wait_for_lines(job: int) -> None:
        seen = lines_of_the_log(project)
        wait_for(
            lambda: len(trainings(cluster, earlier)) == job and lines_of_the_log(project) > seen + 1, "the next lines"
        )

    engine = starter.start(command)
    try:
        for number, stop in enumerate((cancel, run_out_of_time), start=1):
            wait_for_lines(number)
            stop(trainings(cluster, earlier)[-1]["JobId"], project, cluster)
            wait_for(lambda number=number: len(trainings(cluster, earlier)) == number + 1, "the retry")
            (state,) = (project / "work").glob("train_base-*/checkpoint.safetensors")
            kept.append((state.parent / "training.jsonl").read_bytes())
        wait_for_lines(3)
    finally:
        engine.process.kill()
    assert starter.start(command).ended(3 * PATIENCE_SECONDS) == 0, log_of(project).read_text()
    states = [job["JobState"] for job in trainings(cluster, earlier)]
    assert states == ["CANCELLED", "TIMEOUT", "COMPLETED", "COMPLETED"]
    assert "train_base: finished before" in (project / "logs/train_base.log").read_text()
    # Speeds differ from attempt to attempt: equal lines are the same lines.
    whole = (project / "artifacts/training/base.jsonl").read_bytes()
    assert [whole[: len(part)] for part in kept] == kept
    assert 0 < len(kept[0]) < len(kept[1]) < len(whole)
    trained = made_by(project, MODEL)
    run(project, sys.executable, "-m", "stages.train_base")
    assert made_by(project, MODEL) == trained


@pytest.mark.usefixtures("warm_start")
def test_jobs_ask_for_what_their_stages_need_and_for_a_partition(tmp_path):
    project = copy_of_repository(tmp_path / "project")
    said = run(project, "snakemake", "--profile", "profiles/slurm", "-n", ok=False)
    assert "default-resources: slurm_partition: missing" in said
    assert "Traceback" not in said
    edit(project, {"default-resources.slurm_partition": one_node.PARTITION}, PROFILE)
    said = run(project, "snakemake", "--profile", "profiles/slurm", "-n")
    asked = dict(re.findall(r"^rule (\w+):$.*?^ +resources: (.*?)$", said, re.MULTILINE | re.DOTALL))
    for rule, needs in {
        "prepare_data": {"mem_mb=4000", "runtime=60", "gpu=0"},
        "train_base": {"mem_mb=8000", "runtime=1440", "gpu=1"},
    }.items():
        assert {*needs, f"slurm_partition={one_node.PARTITION}"} <= {*asked[rule].split(", ")}
