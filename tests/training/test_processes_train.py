"""The number of processes changes no result: ten steps in float64 with shards of unequal size; how they stop."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from train_in_processes import KINDS, learned, train

from unequal.pipeline.launcher import launch
from unequal.timesteps.batches import DELAY
from unequal.training.checkpoint import read_checkpoint
from unequal.training.loop import CHECKPOINT

STOPPED = Path(__file__).with_name("stop_in_processes.py")
#: A launcher that waits much shorter for the others, where one has left, than one of them saves.
IMPATIENT = """
import sys
from unequal.pipeline import program
program.GRACE_SECONDS = 0.2
sys.exit(program.launch(2, sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory, warm_start):
    root = tmp_path_factory.mktemp("trained")
    command = ["env", f"PYTHONPATH={Path(__file__).parent}", "python", "-m", "train_in_processes", str(root)]
    assert launch(2, command) == 0
    return root


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_two_processes_take_the_same_ten_steps_as_one(trained, kind, tmp_path):
    before, after = (train(tmp_path / str(steps), steps, kind) for steps in (0, 10))
    moved = {name: float((before[name] - after[name]).abs().max()) for name in after}
    assert max(moved.values()) > 1e-3, "the steps lead somewhere"
    assert moved.get("uncertainty.weight", 1) > 1e-3
    alone = {name: value.numpy() for name, value in after.items()}
    for rank in range(2):
        shared = np.load(trained / f"{kind}_{rank}.npz")
        assert set(shared) == set(alone)
        for name in alone:
            assert alone[name].dtype == np.float64
            np.testing.assert_allclose(shared[name], alone[name], rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_gradients_exchanged_in_bf16_are_rounded_equally_in_all_processes(trained):
    exact, first, second = (np.load(trained / f"{name}.npz") for name in ("unet2d_0", "bf16_0", "bf16_1"))
    assert all(np.array_equal(first[name], second[name]) for name in exact)
    errors = {name: np.abs(first[name] - exact[name]).max() for name in exact}
    # A bf16 has a relative error of up to 2⁻⁹; ten steps of AdamW move a weight by at most 0.02.
    assert 1e-8 < max(errors.values()) < 5e-3


@pytest.mark.slow
def test_processes_around_a_compiled_network_take_the_same_steps(trained):
    """The order of the gradients' buckets is settled at the first step, where one graph has both passes."""
    plain, *compiled = (np.load(trained / f"{name}.npz") for name in ("dit_0", "compiled_0", "compiled_1"))
    for found in compiled:
        for name in plain:
            np.testing.assert_allclose(found[name], plain[name], rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_two_processes_learn_the_same_as_one(trained, tmp_path):
    first, second = (json.loads((trained / f"learned_{rank}.json").read_text()) for rank in range(2))
    alone = learned(tmp_path)
    assert first == second
    assert first["info_noise"]["images"] == (6 - DELAY) * 7
    np.testing.assert_array_equal(first["loss_second_moment"]["counts"], alone["loss_second_moment"]["counts"])
    for kind, part in (("loss_second_moment", "losses"), ("adaptive", "moments"), ("info_noise", "sums")):
        np.testing.assert_allclose(first[kind][part], alone[kind][part], rtol=1e-6)


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize(("steps", "saved"), [(1000, 21), (15, 15)])
def test_processes_leave_when_the_first_has_saved(tmp_path, steps, saved):
    """However long that takes, and in the last steps too, in which they do not exchange signals."""
    command = [sys.executable, str(STOPPED), str(tmp_path / "work"), "12", str(steps)]
    done = subprocess.run([sys.executable, "-c", IMPATIENT, *command], check=False, env=environment())
    assert done.returncode == 128 + signal.SIGTERM
    state = read_checkpoint(tmp_path / "work" / CHECKPOINT)
    assert state is not None and state.facts["step"] == saved


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
