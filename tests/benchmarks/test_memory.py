"""What is said of a stage's memory suffices for what it takes, and is not far from it."""

from pathlib import Path

import pytest

from benchmarks.memory import peak_of, project_of
from benchmarks.projects import edit
from unequal.tools.footprint import PROCESS, Footprints


@pytest.mark.slow
@pytest.mark.thorough
def test_a_training_takes_no_more_than_is_said(tmp_path: Path) -> None:
    project = project_of(tmp_path, Path("presets/digits.yaml"))
    # A batch of which more is kept than the process takes without it.
    edit(project, {"training.batch_size": 4000, "recipes.base.images": 4000})
    peaks = {stage: peak_of(project, stage) for stage in ("prepare_data", "train_base")}
    footprints = Footprints.read(project)
    for stage, peak in peaks.items():
        assert peak <= footprints.of(stage).host_bytes(has_gpu=False) <= 1.6 * peak
    assert peaks["train_base"] > 1.5 * PROCESS
