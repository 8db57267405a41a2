"""A checkpoint is whole or absent, and any change to it is found."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from one_line import refusal
from tensors import equal

from unequal import saved
from unequal.saved import Saved, read_saved
from unequal.training.checkpoint import previous_path, read_checkpoint, write_checkpoint

TENSORS = {
    "weights": torch.arange(6.0).reshape(2, 3),
    "step": torch.tensor(7.0),
    "half": torch.ones(3, dtype=torch.bfloat16),
    "flags": torch.tensor([True, False]),
    "strided": torch.arange(6).reshape(2, 3).T,
}
FACTS: dict[str, Any] = {"step": 12345, "sampler": {"history": [0.5, 1.0]}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_checkpoint(tmp_path / "work" / "a.safetensors", Saved(TENSORS, FACTS))
    return tmp_path / "work" / "a.safetensors"


def test_what_was_written_comes_back(path: Path) -> None:
    read = read_checkpoint(path)
    assert read is not None and read.facts == FACTS
    assert equal(read.tensors, TENSORS)
    assert all(value.dtype == TENSORS[name].dtype for name, value in read.tensors.items())
    assert read_checkpoint(path.with_name("none.safetensors")) is None


def written(path: Path, step: int) -> None:
    write_checkpoint(path, Saved({"other": torch.zeros(1)}, {"step": step}))


def steps(path: Path) -> list[int]:
    return [read_saved(one).facts["step"] for one in (previous_path(path), path)]


def test_of_many_the_last_two_stay(path: Path) -> None:
    for step in range(3, 6):
        written(path, step)
    assert steps(path) == [4, 5]
    read = read_checkpoint(path)
    assert read is not None and read.facts == {"step": 5} and list(read.tensors) == ["other"]
    assert sorted(path.parent.iterdir()) == sorted([path, previous_path(path)])


def test_a_spoiled_state_does_not_replace_the_good_one_before(path: Path) -> None:
    written(path, 2)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    written(path, 3)
    assert steps(path) == [FACTS["step"], 3]


def test_a_write_cut_off_between_its_two_moves_leaves_the_state_before(path: Path) -> None:
    os.replace(path, previous_path(path))
    read = read_checkpoint(path)
    assert read is not None and read.facts == FACTS


def test_a_fact_changed(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"12345", b"12346"))
    assert "altered since it was saved" in refusal(read_checkpoint, path)


@pytest.mark.parametrize("begun", [b"", b"half a file"])
def test_a_full_disk_leaves_the_earlier_one(path: Path, monkeypatch: pytest.MonkeyPatch, begun: bytes) -> None:
    def full(tensors: Any, target: Path, metadata: Any) -> None:
        target.write_bytes(begun)
        raise OSError(errno.ENOSPC, "No space left on device")

    before = path.read_bytes()
    monkeypatch.setattr(saved, "save_file", full)
    with pytest.raises(OSError, match="No space left"):
        written(path, 2)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]
