"""The memory that is counted from the settings of a stage suffices for it, and is not far from what it takes."""

import subprocess
import sys
from pathlib import Path

import pytest
from harness.projects import ROOT, edit, environment_of, tiny_copy
from harness.starting import NOBODY

from unequal.tools.footprint import PROCESS, Footprints

#: A small process between us and the stage: a program's peak begins with the size of the process that has started it.
BETWEEN = """
import resource, subprocess, sys
status = subprocess.call(sys.argv[1:], stdout=sys.stderr)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(status)
"""
#: A batch of which more is kept in memory than the process takes without it.
LARGE = {"training.batch_size": 4000, "recipes.base.images": 4000}


def peak_bytes(project: Path, stage: str) -> int:
    """Run a stage in a process of its own; return its resident memory at the peak."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", BETWEEN, sys.executable, "-m", f"stages.{stage}"],
        cwd=project,
        env=environment_of(project) | {"MLFLOW_TRACKING_URI": NOBODY},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return int(done.stdout) * 1024


@pytest.mark.slow
@pytest.mark.thorough
def test_a_training_takes_no_more_than_is_counted(tmp_path: Path) -> None:
    project = tiny_copy(tmp_path / "project", {})
    (project / "params.yaml").write_bytes((ROOT / "presets/digits.yaml").read_bytes())
    edit(project, LARGE | {"runtime.device": "cpu"})
    peaks = {stage: peak_bytes(project, stage) for stage in ("prepare_data", "train_base")}
    footprints = Footprints.read(project)
    for stage, peak in peaks.items():
        assert peak <= footprints.of(stage).host_bytes(has_gpu=False) <= 1.6 * peak
    assert peaks["train_base"] > 1.5 * PROCESS
