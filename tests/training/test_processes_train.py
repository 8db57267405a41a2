"""The number of processes changes no result: ten steps in float64 with shards of unequal size."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from train_in_processes import train

from unequal.pipeline.launching import launch

PROGRAM = Path(__file__).with_name("train_in_processes.py")


def test_two_processes_take_the_same_ten_steps_as_one(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    subprocess.run([sys.executable, str(PROGRAM), str(tmp_path / "one")], check=True, env=environment())
    assert launch(2, [sys.executable, str(PROGRAM), str(tmp_path / "two")]) == 0
    alone = np.load(tmp_path / "one/0.npz")
    for rank in range(2):
        shared = np.load(tmp_path / f"two/{rank}.npz")
        assert set(shared) == set(alone)
        for name in alone:
            assert alone[name].dtype == np.float64
            np.testing.assert_allclose(shared[name], alone[name], rtol=1e-9, atol=1e-12)


def test_the_ten_steps_lead_somewhere(tmp_path: Path) -> None:
    before, after = (train(tmp_path / str(steps), steps) for steps in (1, 10))
    moved = [float((before[name] - after[name]).abs().max()) for name in after]
    assert max(moved) > 1e-3


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
