"""`unequal ui`: the address of the runs, or one line on why there is none."""

import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from graph import ROOT
from harness.server import free_port
from one_line import refusal

from unequal.cli.pages import open_pages
from unequal.pipeline.logger import Execution
from unequal.pipeline.tracker import Tracker
from unequal.settings.training import Tracking

PARAMS = ROOT / "presets/digits.yaml"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return tmp_path


def test_without_a_run_or_a_port_there_are_no_pages(project: Path) -> None:
    assert "mlflow.db: no run was logged yet" in refusal(open_pages, PARAMS, free_port(), browser=False)
    assert list(project.iterdir()) == []
    (project / "mlflow.db").touch()
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        line = refusal(open_pages, PARAMS, other.getsockname()[1], browser=False)
    assert line.startswith("port ") and line.endswith("; name another with --port")


@pytest.mark.thorough  # MLflow's server takes a minute to start
@pytest.mark.slow
def test_the_printed_address_is_that_of_the_experiments_runs(project: Path) -> None:
    tracking = Tracking(uri=None, experiment="unequal", artifact_limit_mb=1, timeout_s=60)
    Tracker(tracking, Execution("train", {}, {}, {"seed": 1}, {"seed": 1})).finish("FINISHED")
    port = free_port()
    command = [sys.executable, "-m", "unequal", "ui", str(PARAMS), "--no-browser", "--port", str(port)]
    with subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            address = (
                f"http://127.0.0.1:{port}/#/experiments/1/runs?workflowType=machine_learning&viewStateShareKey=models\n"
            )
            assert process.stdout.readline() == address
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/version", timeout=30) as answer:
                assert answer.status == 200
        finally:
            process.terminate()
    assert process.returncode == 128 + 15
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0
