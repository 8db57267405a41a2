"""The tiny pipeline on a GPU. Its stages start anew: a copy of a process that knows CUDA could not use it."""

import pytest
from engines_said import children, tracked_runs
from harness.projects import commit, run, tiny_copy


@pytest.mark.gpu
@pytest.mark.slow
def test_the_pipeline_trains_compiled_and_in_bf16(tmp_path):
    fast = {"runtime.device": "cuda", "runtime.compile": True, "runtime.channels_last": True}
    fast |= {"runtime.stages_per_gpu": 4}
    project = tiny_copy(tmp_path / "gpu", {**fast, "training.precision": "bf16"})
    commit(project, "tiny")
    run(project, "snakemake", "--cores", "4")
    assert "Nothing to be done" in run(project, "snakemake", "--cores", "4", "-n")
    devices = {one.data.tags["stage"]: one.data.tags["device"] for one in children(tracked_runs(project))}
    assert {devices[name] != "cpu" for name in ("train_base", "profile_loss", "prune", "evaluate_fid")} == {True}
