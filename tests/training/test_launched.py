"""Processes of a training: what other launchers left in the environment changes nothing; they agree on when to stop."""

import os
from typing import Any

import pytest
import torch
from torch import Tensor, device
from train_in_processes import train

from unequal.runtime import processes
from unequal.runtime.environment import drop_variables
from unequal.training import accelerator
from unequal.training.accelerator import StopSync

#: Variables of Accelerate, of torchrun and training operators, of MPI, of NVIDIA's libraries.
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
def left(monkeypatch):
    for name, value in LEFT.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("left")
def test_a_training_is_what_it_is_without_them(tmp_path, monkeypatch):
    found = train(tmp_path / "left", 4)
    for name in LEFT:
        monkeypatch.delenv(name, raising=False)
    assert all(torch.equal(value, found[name]) for name, value in train(tmp_path / "plain", 4).items())


@pytest.mark.usefixtures("left")
@pytest.mark.parametrize("folder", [None, "gone"])
def test_ranks_count_in_launched_processes_alone(folder, tmp_path, monkeypatch):
    if folder is not None:
        monkeypatch.setenv(processes.FOLDER, str(tmp_path / folder))
    assert (processes.rank(), processes.count(), processes.agreed(lambda: True)) == (0, 1, True)
    monkeypatch.setenv(processes.FOLDER, str(tmp_path))
    assert (processes.rank(), processes.count()) == (1, 2)
    drop_variables(launched=True)
    assert set(LEFT) & set(os.environ) == {"WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_ADDR"}


class Two:
    num_processes, device = 2, device("cpu")

    def __init__(self) -> None:
        self.exchanges = 0

    def reduce(self, tensor: Tensor) -> Tensor:
        self.exchanges += 1
        return 2 * tensor


@pytest.mark.parametrize(("seconds", "exchanges"), [(5.0, 40), (1.0, 40), (0.3, 14), (0.0, 4)])
def test_after_slow_steps_processes_exchange_every_time(seconds, exchanges, monkeypatch):
    both: Any = Two()
    now = [0.0]
    monkeypatch.setattr(accelerator.time, "monotonic", lambda: now[0])
    of_both = StopSync(both, 100)
    for step in range(101, 141):
        now[0] += seconds
        assert not of_both.stops(step, lambda: False)
    assert both.exchanges == exchanges


def test_whoever_is_asked_stops_both_within_ten_steps():
    both: Any = Two()
    of_both = StopSync(both, 0)
    assert any(of_both.stops(step, lambda: True) for step in range(1, 11))


def test_one_process_stops_when_it_is_asked():
    alone: Any = Two()
    alone.num_processes = 1
    assert StopSync(alone, 0).stops(1, lambda: True) and not alone.exchanges
