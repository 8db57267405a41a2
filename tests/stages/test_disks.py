"""A stage on a real disk that is full or read-only: one line, nothing lost, and the same model once there is room."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from small_inputs import RECIPE

from stages import train_base
from unequal.training.checkpoint import read_checkpoint

WORK = Path("work")
MODEL = Path("artifacts/models/base/diffusion_pytorch_model.safetensors")


@pytest.fixture(autouse=True)
def _training(write_project):
    write_project({}, {"batch_size": 8, "checkpoint_every": 2}, recipes={"base": RECIPE | {"images": 80}})


@pytest.fixture
def disk(project):
    """Sets the options of a disk under the work directories; made with the first ones."""
    WORK.mkdir()

    def mount(options: str) -> None:
        if os.geteuid():
            pytest.skip("disks are mounted by root")
        again = ["-o", f"remount,{options}"] if WORK.is_mount() else ["-t", "tmpfs", "-o", options, "tmpfs"]
        done = subprocess.run(["mount", *again, WORK.absolute()], capture_output=True, text=True, check=False)
        if done.returncode and not WORK.is_mount():
            pytest.skip(f"no disk can be mounted here: {done.stderr.strip()}")
        assert done.returncode == 0, done.stderr

    yield mount
    if WORK.is_mount():
        subprocess.run(["umount", WORK.absolute()], check=True)


def trained() -> tuple[int, str]:
    result = CliRunner().invoke(train_base.main, [])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def state() -> tuple[int, bytes]:
    (path,) = WORK.glob("train_base-*/checkpoint.safetensors")
    saved = read_checkpoint(path)
    assert saved is not None
    return saved.facts["step"], path.read_bytes()


def test_a_disk_that_fills_up_or_goes_read_only_keeps_the_last_state(disk):
    disk("size=64m")
    assert trained() == (0, "")
    whole = MODEL.read_bytes()
    shutil.rmtree("artifacts/models")
    disk("size=1m")
    status, said = trained()
    assert (status, said.count("\n")) == (1, 1), said
    assert said.startswith("train_base: ") and "No space left on device" in said
    step, content = state()
    assert 0 < step < 10
    disk("ro")
    status, said = trained()
    assert (status, said.count("\n")) == (1, 1), said
    assert said.startswith(f"train_base: {WORK.absolute()}") and "Read-only file system" in said
    assert state() == (step, content)
    assert not MODEL.exists()
    disk("rw,size=64m")
    assert trained() == (0, "")
    assert MODEL.read_bytes() == whole
    assert list(WORK.iterdir()) == []
