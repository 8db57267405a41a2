"""An engine that `run_engine` starts: how it is found, stopped, killed, and what it prints."""

import io
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from unequal.cli.main import Stopped
from unequal.pipeline.running import make_project, run_engine, write_log


def test_git_sees_nothing_of_a_project(tmp_path):
    git = partial(subprocess.run, cwd=tmp_path, capture_output=True, text=True, check=True)
    git(["git", "init", "-q"])
    make_project(tmp_path / "run")
    (tmp_path / "run/dvc.lock").touch()
    assert git(["git", "status", "--porcelain", "--untracked-files=all"]).stdout == ""


def test_an_engine_finds_a_relative_folder_from_another_checkout(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    calls: list[list[str]] = []

    def started(words: list[str], **options: Any) -> Any:
        calls.append(words)
        return SimpleNamespace(wait=lambda: 0)

    monkeypatch.setattr("unequal.pipeline.running.subprocess.Popen", started)
    run_engine(Path("tries/mine"), "snakemake", 1)
    (words,) = calls
    assert str(tmp_path / "tries/mine") in words


def test_an_engine_hears_ctrl_c_also_from_the_background_of_a_script(tmp_path, monkeypatch):
    ignored = "import signal, sys; sys.exit(signal.getsignal(signal.SIGINT) == signal.SIG_IGN)"
    monkeypatch.setattr("unequal.pipeline.running.command", lambda *_: [sys.executable, "-c", ignored])
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        run_engine(tmp_path, "snakemake", 1)
    finally:
        signal.signal(signal.SIGINT, before)


#: A stand-in for an engine: it ignores what asks it to stop, and so does its stage, in a session of its own.
STUBBORN = """
import pathlib, signal, subprocess, sys, time
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
if sys.argv[1:]:
    stage = subprocess.Popen([sys.executable, __file__], start_new_session=True)
    pathlib.Path(sys.argv[1]).write_text(str(stage.pid))
time.sleep(600)
"""


def test_an_engine_that_does_not_stop_is_killed_with_its_stages(tmp_path, monkeypatch):
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    words = [sys.executable, str(tmp_path / "stubborn.py"), str(tmp_path / "stage")]
    monkeypatch.setattr("unequal.pipeline.running.command", lambda *_: words)
    monkeypatch.setattr("unequal.pipeline.engines.GRACE_SECONDS", 0.5)
    others, engines = psutil.Process().children(recursive=True), set[psutil.Process]()

    def stop_when_started(number: int, _: Any) -> None:
        if (tmp_path / "stage").exists() and (tmp_path / "stage").read_text():
            engines.update({*psutil.Process().children(recursive=True)} - {*others})
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise Stopped(signal.SIGTERM)

    previous = signal.signal(signal.SIGALRM, stop_when_started)
    signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
    try:
        with pytest.raises(Stopped):
            run_engine(tmp_path, "snakemake", 1)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert int((tmp_path / "stage").read_text()) in {one.pid for one in engines}
    psutil.wait_procs(engines, timeout=5)  # a busy system takes a while to end what is killed
    assert not [one for one in engines if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


def test_a_quiet_engine_prints_a_line_a_stage(tmp_path, capsys):
    output = b"rule train_base:\n    input: a\nFinished jobid: 3 (Rule: train_base)\n2 of 9 steps (22%) done\n"
    output += b"[Fri]\nError in rule prune_group_0:\n    jobid: 4\nError in rule prune_group_0:\n"
    (tmp_path / "prune_group_0.log").write_text("a start\nprune: out of memory\n")
    write_log(io.BytesIO(output), tmp_path / "engine.log")
    assert (tmp_path / "engine.log").read_bytes() == output
    assert capsys.readouterr() == ("  2 of 9: train_base\n", "  prune_group_0 failed: prune: out of memory\n")
