"""Opening the prepared data set: what belongs together is read, anything else is refused in one line."""

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from one_line import refusal

from unequal.data.preparation import prepare
from unequal.data.prepared import PreparedData, to_model_range, to_uint8
from unequal.settings.data import Data


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """20 prepared images with labels, 15 of them for training."""
    images = np.random.default_rng(0).integers(0, 256, (20, 3, 4, 4), dtype=np.uint8)
    np.savez(tmp_path / "a.npz", images=images, labels=np.arange(20) % 4)
    data = Data(source="array", path=str(tmp_path / "a.npz"), image_size=4, channels=3, fit="exact", holdout=0.25)
    prepare(data, 0, tmp_path / "data")
    return tmp_path / "data"


def change_facts(folder: Path, **changes: Any) -> None:
    facts = json.loads((folder / "facts.json").read_text())
    (folder / "facts.json").write_text(json.dumps({**facts, **changes}))


def test_arrays_are_mapped_and_read_only(folder: Path) -> None:
    data = PreparedData.open(str(folder))
    assert isinstance(data.images, np.memmap) and isinstance(data.labels, np.memmap)
    assert data.images.shape == (20, 3, 4, 4) and data.labels.dtype == np.int64
    assert np.shares_memory(data.train, data.images) and np.shares_memory(data.holdout, data.images)
    with pytest.raises(ValueError, match="read-only"):
        data.train[0] = 0


def test_train_and_holdout_make_the_whole(folder: Path) -> None:
    data = PreparedData.open(folder)
    assert len(data.train) == 15
    assert np.array_equal(np.concatenate([data.train, data.holdout]), data.images)
    labels = [data.train_labels, data.holdout_labels]
    assert np.array_equal(np.concatenate(labels), data.labels)
    assert [len(part) for part in labels] == [15, 5]
    bare = replace(data, labels=None)
    assert bare.train_labels is bare.holdout_labels is None


def test_held_out_images_fall_into_two_halves(folder: Path) -> None:
    data = PreparedData.open(folder)
    assert np.array_equal(data.holdout_choice, data.holdout[[0, 2, 4]])
    assert np.array_equal(data.holdout_report, data.holdout[[1, 3]])
    labels = data.holdout_labels
    assert labels is not None
    assert torch.equal(data.holdout_choice_labels, labels[[0, 2, 4]])
    assert torch.equal(data.holdout_report_labels, labels[[1, 3]])
    bare = replace(data, labels=None)
    assert bare.holdout_choice_labels is bare.holdout_report_labels is None


def test_the_hash_is_that_of_the_values(folder: Path) -> None:
    data = PreparedData.open(folder)
    assert data.facts["sha256"] == sha256(data.images.tobytes()).hexdigest()


@pytest.mark.parametrize("digest", ["../../../x", "0" * 63, "0" * 64 + "\n"])
def test_a_hash_that_may_be_a_path_is_refused(folder: Path, digest: str) -> None:
    """It becomes part of the name of a file."""
    facts = json.loads((folder / "facts.json").read_text())
    (folder / "facts.json").write_text(json.dumps(facts | {"sha256": digest}))
    assert "facts.json: sha256: " in refusal(PreparedData.open, folder)


@pytest.mark.parametrize("name", ["images.npy", "labels.npy", "facts.json"])
def test_missing(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert f"{name}: missing" in refusal(PreparedData.open, folder)


@pytest.mark.parametrize("name", ["images.npy", "labels.npy"])
@pytest.mark.parametrize("kept", [0, 50, 200, -1])
def test_cut_short(folder: Path, name: str, kept: int) -> None:
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:kept])
    assert f"{name}: damaged or cut short" in refusal(PreparedData.open, folder)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("images.npy", np.zeros((20, 3, 4, 4), dtype=np.float32)),
        ("images.npy", np.zeros((20, 4, 4, 3), dtype=np.uint8)),
        ("images.npy", np.zeros((19, 3, 4, 4), dtype=np.uint8)),
        ("labels.npy", np.zeros(20, dtype=np.int32)),
        ("labels.npy", np.zeros(19, dtype=np.int64)),
    ],
)
def test_another_array_than_the_facts_describe(folder: Path, name: str, content: np.ndarray) -> None:
    np.save(folder / name, content)
    assert f"{name}: not the" in refusal(PreparedData.open, folder)


def test_another_order_of_bytes(folder: Path) -> None:
    np.save(folder / "images.npy", np.asfortranarray(np.load(folder / "images.npy")))
    assert "images.npy: altered" in refusal(PreparedData.open, folder)


def test_pickled_objects(folder: Path) -> None:
    np.save(folder / "images.npy", np.array([None] * 20, dtype=object))
    assert "images.npy: damaged" in refusal(PreparedData.open, folder)


@pytest.mark.parametrize("label", [-1, 4])
def test_labels_that_are_no_class(folder: Path, label: int) -> None:
    np.save(folder / "labels.npy", np.full(20, label))
    assert "labels.npy: labels" in refusal(PreparedData.open, folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"n": "20"},
        {"n": 0},
        {"shape": [3, 4]},
        {"more": 1},
        {"classes": ["a", "b", "c"]},
        {"copies": {"train": 1}},
        {"split": {"train": [0, 15], "holdout": [16, 20]}},
        {"split": {"train": [0, 0], "holdout": [0, 20]}},
        {"split": {"train": [0, 21], "holdout": [21, 20]}},
        {"split": {"train": [1, 15], "holdout": [15, 20]}},
    ],
)
def test_facts_that_contradict_themselves(folder: Path, changes: dict[str, Any]) -> None:
    change_facts(folder, **changes)
    assert "facts.json: " in refusal(PreparedData.open, folder)


def test_a_data_set_without_labels(folder: Path) -> None:
    change_facts(folder, labels=None, classes=None)
    (folder / "labels.npy").unlink()
    assert PreparedData.open(folder).labels is None


def test_all_256_values_come_back() -> None:
    values = torch.arange(256, dtype=torch.uint8)
    seen = to_model_range(values)
    assert seen.dtype == torch.float32
    assert torch.equal(to_uint8(seen), values)


def test_values_outside_the_range_are_clamped_and_others_go_to_the_nearest() -> None:
    # 127.5 + 127.5·x: −0.9 → 12.75, 0.01 → 128.775
    assert to_uint8(torch.tensor([-7.0, -1.001, -0.9, 0.01, 1.001, 7.0])).tolist() == [0, 0, 13, 129, 255, 255]


def test_half_precision_is_rounded_in_single() -> None:
    values = torch.arange(256, dtype=torch.uint8)
    assert torch.equal(to_uint8(to_model_range(values).half()), values)
