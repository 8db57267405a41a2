"""Processes that one command starts: they know each other, hear of signals, and end together, in one line."""

import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import torch

from unequal.errors import UserError
from unequal.pipeline.launcher import launch, num_processes
from unequal.runtime.processes import FOLDER

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
LAUNCHER = "import sys; from unequal.pipeline.launcher import launch; sys.exit(launch(2, sys.argv[1:]))"
#: First lines of every program.
IMPORTS = """
import os, signal, sys, time
from pathlib import Path
from unequal.pipeline.program import follow_launcher, leave_reason
from unequal.runtime.processes import rank
"""


@pytest.fixture
def written(tmp_path, monkeypatch):
    """A program of these lines in an empty folder, as a command."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def write(text: str) -> list[str]:
        Path("program.py").write_text(IMPORTS + textwrap.dedent(text))
        return [sys.executable, "program.py"]

    return write


def appeared(*names: str) -> bool:
    """Return True where files appear in time."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        if all(Path(name).exists() for name in names):
            return True
        time.sleep(0.05)
    return False


def test_processes_know_their_number(written):
    command = written("""
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "OMP_NUM_THREADS")
        Path(os.environ["RANK"]).write_text(" ".join(os.environ[name] for name in names))
    """)
    assert launch(3, command, threads=2) == 0
    assert [Path(str(rank)).read_text() for rank in range(3)] == [f"{rank} 3 {rank} 2" for rank in range(3)]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('leave_reason("stage: no more"); sys.exit(1)', "stage: no more\n"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "process 1 of 3 was ended by SIGKILL; all have been stopped\n"),
    ],
    ids=["failed", "killed"],
)
def test_a_failure_ends_all_and_is_reported_once(written, capfd, lines, said):
    assert launch(3, written(f"if rank() == 1:\n    {lines}\ntime.sleep(300)")) == 1
    assert capfd.readouterr().err == said


#: Processes that take their time to save when they are asked to stop.
SAVING = """
    from unequal.runtime.processes import stop_deferred
    follow_launcher()
    signal.signal(signal.SIGUSR1, lambda *_: sys.exit(143))
    with stop_deferred() as asked:
        Path(f"ready-{rank()}").touch()
        while not asked():
            time.sleep(0.01)
        Path(f"asked-{rank()}").touch()
        time.sleep(1)
        Path(f"saved-{rank()}").touch()
"""


@pytest.mark.parametrize(
    ("signals", "saved"),
    [
        ((signal.SIGTERM, signal.SIGTERM), True),
        ((signal.SIGHUP, signal.SIGTERM), True),
        ((signal.SIGINT, signal.SIGINT), False),
    ],
)
def test_a_signal_reaches_every_process_once(written, signals, saved):
    """A second Ctrl-C ends all at once."""
    launcher = subprocess.Popen([sys.executable, "-c", LAUNCHER, *written(SAVING)])
    assert appeared("ready-0", "ready-1")
    launcher.send_signal(signals[0])
    assert appeared("asked-0", "asked-1")
    for one in signals[1:]:
        launcher.send_signal(one)
    assert launcher.wait(300) == 128 + signals[0]
    assert [Path(f"saved-{rank}").exists() for rank in range(2)] == [saved, saved]


def test_processes_leave_signals_from_outside_to_the_launcher(written):
    command = written("""
        follow_launcher()
        for one in (signal.SIGTERM, signal.SIGINT):
            os.kill(os.getpid(), one)
        Path(f"alive-{rank()}").touch()
    """)
    assert launch(2, command) == 0
    assert Path("alive-0").exists() and Path("alive-1").exists()


def test_processes_end_with_a_launcher_that_is_killed(written):
    command = written("""
        follow_launcher()
        Path(f"pid-{rank()}.part").write_text(str(os.getpid()))
        os.rename(f"pid-{rank()}.part", f"pid-{rank()}")
        time.sleep(600)
    """)
    launcher = subprocess.Popen([sys.executable, "-c", LAUNCHER, *command])
    assert appeared("pid-0", "pid-1")
    launcher.kill()
    launcher.wait()
    left = [Path(f"/proc/{Path(f'pid-{rank}').read_text()}") for rank in range(2)]
    deadline = time.monotonic() + 60
    while any(path.exists() for path in left) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(path.exists() for path in left)


@pytest.mark.parametrize(("device", "asked", "gpus", "expected"), [
    ("cpu", None, 8, 1), ("cpu", 3, 8, 3), ("auto", None, 0, 1), ("auto", 2, 0, 2),
    ("auto", None, 4, 4), ("cuda", 2, 4, 2), ("auto", 1, 4, 1),
])  # fmt: skip
def test_one_process_a_gpu_or_as_many_as_are_asked_for(runtime, tmp_path, monkeypatch, device, asked, gpus, expected):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    chosen = runtime.model_copy(update={"device": device, "processes": asked})
    assert num_processes(chosen) == expected
    monkeypatch.setenv("RANK", "0")
    assert num_processes(chosen) == expected, "another launcher's"
    monkeypatch.setenv(FOLDER, str(tmp_path))
    assert num_processes(chosen) == 1


def test_more_processes_than_gpus_are_refused(runtime, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(UserError, match=r"runtime\.processes: 3: one a GPU; allowed here: 1 … 2, or null"):
        num_processes(runtime.model_copy(update={"device": "auto", "processes": 3}))
