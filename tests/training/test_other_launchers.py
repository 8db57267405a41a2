"""Variables that other launchers have left in the environment change no training, and let none wait."""

import os
from pathlib import Path

import pytest
import torch
from train_in_processes import train

from unequal import processes
from unequal.environment import drop_variables

#: Of Accelerate, of torchrun and training operators, of MPI, of NVIDIA's libraries.
LEFT = {
    "ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "4",
    "ACCELERATE_MIXED_PRECISION": "fp64",
    "ACCELERATE_USE_DEEPSPEED": "true",
    "ACCELERATE_USE_FSDP": "true",
    "ACCELERATE_TORCH_DEVICE": "meta",
    "FSDP_VERSION": "x",
    "PARALLELISM_CONFIG_TP_SIZE": "2",
    "WORLD_SIZE": "2",
    "RANK": "1",
    "LOCAL_RANK": "1",
    "MASTER_ADDR": "192.0.2.1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "PMI_SIZE": "2",
    "MV2_COMM_WORLD_SIZE": "2",
    "NVIDIA_TF32_OVERRIDE": "1",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "1",
}


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in LEFT.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("left")
def test_a_training_is_what_it_is_without_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = train(tmp_path / "left", 4)
    for name in LEFT:
        monkeypatch.delenv(name, raising=False)
    assert all(torch.equal(value, found[name]) for name, value in train(tmp_path / "plain", 4).items())


@pytest.mark.usefixtures("left")
@pytest.mark.parametrize("folder", [None, "gone"])
def test_ranks_count_in_launched_processes_alone(
    folder: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if folder is not None:
        monkeypatch.setenv(processes.FOLDER, str(tmp_path / folder))
    assert (processes.rank(), processes.count(), processes.agreed(lambda: True)) == (0, 1, True)
    monkeypatch.setenv(processes.FOLDER, str(tmp_path))
    assert (processes.rank(), processes.count()) == (1, 2)
    drop_variables(launched=True)
    assert set(LEFT) & set(os.environ) == {"WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_ADDR"}
