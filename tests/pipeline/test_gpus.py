"""GPUs lent to stages side by side, with GPUs that are names alone."""

import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml
from harness.projects import run
from one_line import refusal

from unequal.pipeline.attempt import DVC_STAGE, SNAKEMAKE
from unequal.pipeline.gpus import LENT, VISIBLE, gpus_of_stage, lease, machine_gpus

GPUS = ["GPU-a", "GPU-b", "GPU-c"]
#: Takes GPUs, says which, and keeps them until it is killed.
HOLDER = f"""
import os, sys, time
from unequal.pipeline.gpus import lease
locks = lease({GPUS}, int(sys.argv[1]))
print(os.environ["{VISIBLE}"], flush=True)
time.sleep(600)
"""
#: A stage of DVC: takes GPUs and says which in a file, then waits until its neighbour has done the same.
STAGE = f"""
import os, sys, time
from pathlib import Path
from unequal.pipeline.gpus import gpus_of_stage, lease
from unequal.settings.training import Runtime
own, other = sys.argv[1:]
runtime = Runtime.model_construct(device="auto", stages_per_gpu=1)
locks = lease(gpus_of_stage(runtime), 1)
Path(own).write_text(os.environ.get("{VISIBLE}", "all"))
deadline = time.monotonic() + 120
while not Path(other).exists() and time.monotonic() < deadline:
    time.sleep(0.05)
sys.exit(not Path(other).exists())
"""


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    """Locks of this test, short waits."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("unequal.pipeline.gpus.WAIT_SECONDS", 0.02)
    monkeypatch.setenv(VISIBLE, ",".join(GPUS))
    for name in (LENT, SNAKEMAKE, DVC_STAGE):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def two_gpus(tmp_path, monkeypatch):
    """A machine whose driver names two GPUs."""
    (tmp_path / "driver").mkdir()
    tool = tmp_path / "driver/nvidia-smi"
    tool.write_text("#!/bin/sh\nprintf 'GPU-1\\nGPU-2\\n'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tool.parent), prepend=os.pathsep)
    monkeypatch.delenv(VISIBLE)


def holder(count: int) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", HOLDER, str(count)], stdout=subprocess.PIPE, text=True)


def test_stages_see_gpus_of_their_own_and_a_killed_one_frees_them():
    with ExitStack() as stack:
        first = stack.enter_context(holder(2))
        stack.callback(first.kill)
        assert first.stdout and first.stdout.readline() == "GPU-a,GPU-b\n"
        mine = lease(GPUS, 1)
        assert len(mine) == 1 and os.environ[VISIBLE] == "GPU-c"
        waiting = stack.enter_context(holder(1))
        stack.callback(waiting.kill)
        time.sleep(0.5)
        assert waiting.poll() is None
        first.kill()
        assert waiting.stdout and waiting.stdout.readline() == "GPU-a\n"


def test_no_more_gpus_are_taken_than_are_lent():
    assert "runtime.processes: 4: one a GPU; allowed here: 1 … 3" in refusal(lease, GPUS, 4)
    assert lease([], 1) == []
    assert os.environ[VISIBLE] == "GPU-a,GPU-b,GPU-c"


def test_several_stages_share_a_gpu_and_none_takes_it_twice(monkeypatch):
    names = ["GPU-a", "GPU-b"] * 2
    assert "allowed here: 1 … 2" in refusal(lease, names, 3)
    taken = []
    for count, visible in ((1, "GPU-a"), (2, "GPU-b,GPU-a"), (1, "GPU-b")):
        taken.append(lease(names, count))
        assert os.environ[VISIBLE] == visible
    monkeypatch.setattr(time, "sleep", lambda seconds: taken.clear())
    assert lease(names, 2) and not taken


def test_without_a_number_all_free_gpus_are_taken(monkeypatch):
    first = lease(GPUS, 1)
    taken = [lease(GPUS, None)]
    assert (len(first), os.environ[VISIBLE]) == (1, "GPU-b,GPU-c")
    monkeypatch.setattr(time, "sleep", lambda seconds: taken.clear())
    assert len(lease(GPUS, None)) == 2 and not taken, "there is nothing to take before a stage ends"


@pytest.mark.parametrize(
    ("visible", "names"), [("0,2", ["0", "2"]), ("", []), (None, ["GPU-1", "GPU-2"])], ids=["some", "none", "all"]
)
def test_a_machines_gpus_are_those_that_are_visible(visible, names, two_gpus, monkeypatch):
    if visible is not None:
        monkeypatch.setenv(VISIBLE, visible)
    assert machine_gpus() == names


@pytest.mark.parametrize(
    ("surroundings", "device", "lent"),
    [
        ({LENT: "GPU-a,GPU-b"}, "auto", ["GPU-a", "GPU-b"]),
        ({DVC_STAGE: "train@base"}, "auto", ["GPU-1", "GPU-2"] * 3),
        ({DVC_STAGE: "studies/x/dvc.yaml:train@base"}, "cuda", ["GPU-1", "GPU-2"] * 3),
        ({DVC_STAGE: "train@base"}, "cpu", []),
        ({DVC_STAGE: "other"}, "auto", []),
        ({DVC_STAGE: "report"}, "auto", []),
        ({DVC_STAGE: "train@base", SNAKEMAKE: "1"}, "auto", []),
        ({DVC_STAGE: "train@base", VISIBLE: "1"}, "auto", []),
        ({}, "auto", []),
    ],
)
def test_engines_lend_gpus_to_stages_that_ask_for_one(
    runtime, two_gpus, tmp_path, monkeypatch, surroundings, device, lent
):
    monkeypatch.chdir(tmp_path)
    wanting = {"meta": {"gpu": 1}}
    Path("dvc.yaml").write_text(yaml.safe_dump({"stages": {"train": wanting, "report": {}}}))
    for name, value in surroundings.items():
        monkeypatch.setenv(name, value)
    assert gpus_of_stage(runtime.model_copy(update={"device": device, "stages_per_gpu": 3})) == lent


@pytest.mark.slow
def test_two_runs_of_dvc_give_their_stages_gpus_of_their_own(two_gpus, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "stage.py").write_text(STAGE)
    stages = {
        own: {"cmd": f"{sys.executable} stage.py {own}.txt {other}.txt", "outs": [f"{own}.txt"], "meta": {"gpu": 1}}
        for own, other in (("one", "two"), ("two", "one"))
    }
    (project / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}))
    run(project, "dvc", "init", "--no-scm", "-q")
    root = {"PYTHONPATH": str(Path(__file__).parents[2])}
    first = subprocess.Popen(["dvc", "repro", "one"], cwd=project, env=os.environ | root)
    deadline = time.monotonic() + 120
    while not (project / "one.txt").exists() and first.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    run(project, "dvc", "repro", "two", environment=root)
    assert first.wait(120) == 0
    assert [(project / f"{name}.txt").read_text() for name in ("one", "two")] == ["GPU-1", "GPU-2"]
    assert {*yaml.safe_load((project / "dvc.lock").read_text())["stages"]} == {"one", "two"}
