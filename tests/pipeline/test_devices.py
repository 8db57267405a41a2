"""GPUs lent to stages side by side, with GPUs that are names alone."""

import os
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest
from one_line import refusal

from unequal.pipeline.devices import LENT, VISIBLE, lease, machine_gpus

#: Takes GPUs, says which, and keeps them until it is killed.
HOLDER = f"""
import os, sys, time
from unequal.pipeline.devices import lease
locks = lease(int(sys.argv[1]))
print(os.environ["{VISIBLE}"], flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def lent(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("unequal.pipeline.devices.WAIT_SECONDS", 0.02)
    monkeypatch.setenv(LENT, "GPU-a,GPU-b,GPU-c")
    monkeypatch.setenv(VISIBLE, "GPU-a,GPU-b,GPU-c")


def holder(count: int) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", HOLDER, str(count)], stdout=subprocess.PIPE, text=True)


def test_stages_see_gpus_of_their_own_and_a_killed_one_frees_them():
    with ExitStack() as stack:
        first = stack.enter_context(holder(2))
        stack.callback(first.kill)
        assert first.stdout and first.stdout.readline() == "GPU-a,GPU-b\n"
        mine = lease(1)
        assert len(mine) == 1 and os.environ[VISIBLE] == "GPU-c"
        waiting = stack.enter_context(holder(1))
        stack.callback(waiting.kill)
        time.sleep(0.5)
        assert waiting.poll() is None
        first.kill()
        assert waiting.stdout and waiting.stdout.readline() == "GPU-a\n"


def test_no_more_gpus_are_taken_than_are_lent(monkeypatch):
    assert "runtime.processes: 4: one a GPU; allowed here: 1 … 3" in refusal(lease, 4)
    monkeypatch.delenv(LENT)
    assert lease(1) == []
    assert os.environ[VISIBLE] == "GPU-a,GPU-b,GPU-c"


def test_several_stages_share_a_gpu_and_none_takes_it_twice(monkeypatch):
    monkeypatch.setenv(LENT, ",".join(["GPU-a", "GPU-b"] * 2))
    assert "allowed here: 1 … 2" in refusal(lease, 3)
    taken = []
    for count, visible in ((1, "GPU-a"), (2, "GPU-b,GPU-a"), (1, "GPU-b")):
        taken.append(lease(count))
        assert os.environ[VISIBLE] == visible
    monkeypatch.setattr(time, "sleep", lambda seconds: taken.clear())
    assert lease(2) and not taken


@pytest.mark.parametrize(
    ("visible", "names"), [("0,2", ["0", "2"]), ("", []), (None, ["GPU-1", "GPU-2"])], ids=["some", "none", "all"]
)
def test_a_machines_gpus_are_those_that_are_visible(visible, names, tmp_path, monkeypatch):
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\nprintf 'GPU-1\\nGPU-2\\n'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delenv(VISIBLE)
    if visible is not None:
        monkeypatch.setenv(VISIBLE, visible)
    assert machine_gpus() == names
