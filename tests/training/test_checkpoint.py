"""A checkpoint is whole or absent, and any change to it is found."""

import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from one_line import refusal
from tensors import equal

from unequal.runtime import tensor_files
from unequal.runtime.tensor_files import Saved, read_saved
from unequal.training import checkpoint
from unequal.training.checkpoint import CheckpointWriter, previous_path, read_checkpoint, write_checkpoint

TENSORS = {
    "weights": torch.arange(6.0).reshape(2, 3),
    "step": torch.tensor(7.0),
    "half": torch.ones(3, dtype=torch.bfloat16),
    "flags": torch.tensor([True, False]),
    "strided": torch.arange(6).reshape(2, 3).T,
}
FACTS: dict[str, Any] = {"step": 12345, "sampler": {"history": [0.5, 1.0]}}


@pytest.fixture
def path(tmp_path):
    write_checkpoint(tmp_path / "work" / "a.safetensors", Saved(TENSORS, FACTS))
    return tmp_path / "work" / "a.safetensors"


def test_what_was_written_comes_back(path):
    read = read_checkpoint(path)
    assert read is not None and read.facts == FACTS
    assert equal(read.tensors, TENSORS)
    assert all(value.dtype == TENSORS[name].dtype for name, value in read.tensors.items())
    assert read_checkpoint(path.with_name("none.safetensors")) is None


def written(path: Path, step: int) -> None:
    write_checkpoint(path, Saved({"other": torch.zeros(1)}, {"step": step}))


def steps(path: Path) -> list[int]:
    return [read_saved(one).facts["step"] for one in (previous_path(path), path)]


def test_of_many_the_last_two_stay(path):
    for step in range(3, 6):
        written(path, step)
    assert steps(path) == [4, 5]
    read = read_checkpoint(path)
    assert read is not None and read.facts == {"step": 5} and list(read.tensors) == ["other"]
    assert sorted(path.parent.iterdir()) == sorted([path, previous_path(path)])


def test_a_spoiled_state_does_not_replace_the_good_one_before(path):
    written(path, 2)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    written(path, 3)
    assert steps(path) == [FACTS["step"], 3]


def test_a_write_cut_off_between_its_two_moves_leaves_the_state_before(path):
    os.replace(path, previous_path(path))
    read = read_checkpoint(path)
    assert read is not None and read.facts == FACTS


def test_a_fact_changed(path):
    path.write_bytes(path.read_bytes().replace(b"12345", b"12346"))
    assert "altered since it was saved" in refusal(read_checkpoint, path)


@pytest.mark.parametrize("begun", [b"", b"half a file"])
def test_a_full_disk_leaves_the_earlier_one(path, monkeypatch, begun):
    def full(tensors: Any, target: Path, metadata: Any) -> None:
        target.write_bytes(begun)
        raise OSError(errno.ENOSPC, "No space left on device")

    before = path.read_bytes()
    monkeypatch.setattr(tensor_files, "save_file", full)
    with pytest.raises(OSError, match="No space left"):
        written(path, 2)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_state_is_written_as_it_was_while_the_training_goes_on(tmp_path, monkeypatch):
    """The next state waits for it."""
    goes_on, order, write = threading.Event(), [], checkpoint.write_checkpoint
    path = tmp_path / "a.safetensors"

    def waiting(path: Path, saved: Saved) -> None:
        goes_on.wait()
        order.append(f"written {saved.facts['step']}")
        write(path, saved)

    monkeypatch.setattr(checkpoint, "write_checkpoint", waiting)
    weights, facts = torch.zeros(3), {"step": 1, "history": [0]}
    with CheckpointWriter(path) as writer:
        writer.start(path, Saved({"weights": weights}, facts))
        weights += 1
        facts["history"].append(1)
        order.append("trained")
        threading.Timer(0.1, goes_on.set).start()
        writer.start(path, Saved({"weights": weights}, {"step": 2}))
        first = read_checkpoint(path)
        assert first is not None and first.facts == {"step": 1, "history": [0]} and not first.tensors["weights"].any()
    last = read_checkpoint(path)
    assert last is not None and last.tensors["weights"].all()
    assert order == ["trained", "written 1", "written 2"]


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_snapshot_is_written_before_the_state_of_its_step_which_does_not_wait(tmp_path, monkeypatch):
    goes_on, snapshot, state = threading.Event(), tmp_path / "snapshot.safetensors", tmp_path / "a.safetensors"
    write = checkpoint.write_saved
    monkeypatch.setattr(checkpoint, "write_saved", lambda *given: (goes_on.wait(), write(*given)))
    with CheckpointWriter(state) as writer:
        for path in (snapshot, state):
            writer.start(path, Saved({}, {"step": 3}))
        assert not snapshot.exists() and not state.exists()
        goes_on.set()
    assert snapshot.stat().st_mtime_ns <= state.stat().st_mtime_ns


def test_no_state_is_written_after_a_snapshot_that_failed(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "write_saved", full)
    writer = CheckpointWriter(tmp_path / "a.safetensors")
    writer.start(tmp_path / "snapshot.safetensors", Saved({}, {"step": 3}))
    writer.start(writer.path, Saved({}, {"step": 3}))
    with pytest.raises(OSError, match="No space left"):
        writer.finish()
    writer.pool.shutdown()
    assert not writer.path.exists()


@pytest.mark.parametrize("call", [CheckpointWriter.is_late, CheckpointWriter.finish])
def test_a_write_that_fails_is_raised_by_the_next_call(call, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "write_checkpoint", full)
    writer = CheckpointWriter(tmp_path / "a.safetensors")
    writer.start(writer.path, Saved({}, {"step": 1}))
    writer.pending[0].exception()
    with pytest.raises(OSError, match="No space left"):
        call(writer)
    writer.finish()
    # What ends a training is reported, and not what it ends with.
    writer.start(writer.path, Saved({}, {"step": 2}))
    with pytest.raises(ValueError, match="first"), writer:
        raise ValueError("first")


def test_a_state_is_late_after_so_many_seconds_whatever_snapshots_were_written(tmp_path):
    writer = CheckpointWriter(tmp_path / "a.safetensors", seconds=1000)
    assert not writer.is_late()
    writer.begun -= 1001
    writer.start(tmp_path / "snapshot.safetensors", Saved({}, {"step": 1}))
    assert writer.is_late()
    writer.start(writer.path, Saved({}, {"step": 1}))
    assert not writer.is_late()
    assert not CheckpointWriter(tmp_path / "a.safetensors").is_late()
