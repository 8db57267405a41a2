"""Opening the prepared data set: what belongs together is read, anything else is refused in one line."""

import json
from collections.abc import Callable
from dataclasses import replace
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
def folder(tmp_path):
    """20 prepared images with labels, 15 of them for training."""
    images = np.random.default_rng(0).integers(0, 256, (20, 3, 4, 4), dtype=np.uint8)
    np.savez(tmp_path / "a.npz", images=images, labels=np.arange(20) % 4)
    data = Data(source="array", path=str(tmp_path / "a.npz"), image_size=4, channels=3, fit="exact", holdout=0.25)
    prepare(data, 0, tmp_path / "data")
    return tmp_path / "data"


def change_facts(folder: Path, **changes: Any) -> None:
    facts = json.loads((folder / "facts.json").read_text())
    (folder / "facts.json").write_text(json.dumps({**facts, **changes}))


def test_arrays_are_mapped_and_read_only(folder):
    data = PreparedData.open(str(folder))
    assert isinstance(data.images, np.memmap) and isinstance(data.labels, np.memmap)
    assert data.images.shape == (20, 3, 4, 4) and data.labels.dtype == np.int64
    assert np.shares_memory(data.train, data.images) and np.shares_memory(data.holdout, data.images)
    with pytest.raises(ValueError, match="read-only"):
        data.train[0] = 0


def test_parts_make_the_whole(folder):
    data = PreparedData.open(folder)
    labels = data.labels_of("holdout")
    assert labels is not None and [len(data.train), len(labels)] == [15, 5]
    assert np.array_equal(np.concatenate([data.train, data.holdout]), data.images)
    assert np.array_equal(np.concatenate([data.labels_of("train"), labels]), data.labels)
    assert np.array_equal(data.holdout_choice, data.holdout[[0, 2, 4]])
    assert np.array_equal(data.holdout_report, data.holdout[[1, 3]])
    assert torch.equal(data.labels_of("holdout_choice"), labels[[0, 2, 4]])
    assert torch.equal(data.labels_of("holdout_report"), labels[[1, 3]])
    bare = replace(data, labels=None)
    assert {bare.labels_of(part) for part in ("train", "holdout", "holdout_choice")} == {None}


def cut_to(kept: int) -> Callable[[Path], object]:
    return lambda file: file.write_bytes(file.read_bytes()[:kept])


def holding(content: np.ndarray) -> Callable[[Path], object]:
    return lambda file: np.save(file, content)


@pytest.mark.parametrize(
    ("name", "spoil", "said"),
    [
        *((name, Path.unlink, "missing") for name in ("images.npy", "labels.npy", "facts.json")),
        *((f"{name}.npy", cut_to(n), "damaged or cut") for name in ("images", "labels") for n in (0, 50, -1)),
        ("images.npy", holding(np.zeros((20, 3, 4, 4), dtype=np.float32)), "not the"),
        ("images.npy", holding(np.zeros((20, 4, 4, 3), dtype=np.uint8)), "not the"),
        ("images.npy", holding(np.zeros((19, 3, 4, 4), dtype=np.uint8)), "not the"),
        ("labels.npy", holding(np.zeros(20, dtype=np.int32)), "not the"),
        ("labels.npy", holding(np.zeros(19, dtype=np.int64)), "not the"),
        ("images.npy", lambda file: np.save(file, np.asfortranarray(np.load(file))), "altered"),
        ("images.npy", holding(np.array([None] * 20, dtype=object)), "damaged"),
        *(("labels.npy", holding(np.full(20, label)), "labels") for label in (-1, 4)),
    ],
)
def test_a_file_that_is_not_the_one_of_the_facts_is_refused(folder, name, spoil, said):
    spoil(folder / name)
    assert f"{name}: {said}" in refusal(PreparedData.open, folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"n": "20"},
        {"n": 0},
        {"shape": [3, 4]},
        {"more": 1},
        {"copies": {"train": 1}},
        *({"sha256": digest} for digest in ("../../../x", "0" * 63, "0" * 64 + "\n")),  # it becomes part of a name
    ],
)
def test_facts_of_another_form_are_refused(folder, changes):
    change_facts(folder, **changes)
    assert "facts.json: " in refusal(PreparedData.open, folder)


def test_a_data_set_without_labels(folder):
    change_facts(folder, labels=None, classes=None)
    (folder / "labels.npy").unlink()
    assert PreparedData.open(folder).labels is None


def test_all_256_values_come_back_also_from_half_precision():
    values = torch.arange(256, dtype=torch.uint8)
    seen = to_model_range(values)
    assert seen.dtype == torch.float32
    assert torch.equal(to_uint8(seen), values) and torch.equal(to_uint8(seen.half()), values)


def test_values_outside_the_range_are_clamped_and_others_go_to_the_nearest():
    # 127.5 + 127.5·x: −0.9 → 12.75, 0.01 → 128.775
    assert to_uint8(torch.tensor([-7.0, -1.001, -0.9, 0.01, 1.001, 7.0])).tolist() == [0, 0, 13, 129, 255, 255]
