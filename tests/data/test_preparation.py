"""From a source to the prepared data set: split, order, facts, and what is refused."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from one_line import refusal
from PIL import Image
from reading import settings

from unequal.data import decoding
from unequal.data.folders import Folder
from unequal.data.preparation import prepare, training_images
from unequal.data.prepared import PreparedData
from unequal.errors import UserError


@pytest.fixture
def numbered(tmp_path):
    """20 images, the i-th full of the value 10 + i and of class i modulo 4."""
    images = np.full((20, 8, 8), np.arange(10, 30, dtype=np.uint8)[:, None, None])
    np.savez(tmp_path / "numbered.npz", images=images, labels=np.arange(20) % 4)
    return settings(source="array", path=str(tmp_path / "numbered.npz"), holdout=0.25)


def test_every_image_once_with_its_label(numbered, tmp_path):
    prepare(numbered, 1, tmp_path / "data")
    data = PreparedData.open(tmp_path / "data")
    numbers = data.images[:, 0, 3, 3].astype(int) - 10
    assert sorted(numbers) == list(range(20)) != list(numbers)
    assert data.labels is not None and data.labels.tolist() == (numbers % 4).tolist()
    assert (len(data.train), len(data.holdout)) == (15, 5)
    assert not set(data.train.flat) & set(data.holdout.flat)


def test_facts_are_those_of_the_files(numbered, tmp_path):
    facts = prepare(numbered, 1, tmp_path / "data")
    images = np.load(tmp_path / "data/images.npy", allow_pickle=False)
    assert images.flags.c_contiguous and images.dtype == np.uint8
    assert facts == {
        "n": 20,
        "shape": [1, 8, 8],
        "range": [10, 29],
        "source": "array",
        "labels": 4,
        "classes": ["0", "1", "2", "3"],
        "converted": {},
        "left_out": 0,
        "copies": {"train": 0, "holdout": 0},
        "sha256": hashlib.sha256(images.tobytes()).hexdigest(),
        "split": {"train": [0, 15], "holdout": [15, 20]},
        "autoencoder": None,
    }
    assert json.loads((tmp_path / "data/facts.json").read_text()) == facts
    assert sorted(file.name for file in (tmp_path / "data").iterdir()) == ["facts.json", "images.npy", "labels.npy"]


def test_a_moved_source_makes_the_same_files(numbered, tmp_path):
    moved = numbered.model_copy(update={"path": str(tmp_path / "elsewhere" / "set of mine.npz")})
    prepare(numbered, 1, tmp_path / "data")
    (tmp_path / "elsewhere").mkdir()
    Path(str(numbered.path)).rename(str(moved.path))
    prepare(moved, 1, tmp_path / "again")
    contents = [{file.name: file.read_bytes() for file in (tmp_path / name).iterdir()} for name in ("data", "again")]
    assert contents[0] == contents[1] and not any(str(tmp_path).encode() in one for one in contents[0].values())


@pytest.mark.parametrize(("wrong", "named"), [(2, 2), (5, 3)])
def test_images_that_do_not_fit_are_named_together(tmp_path, wrong, named):
    (tmp_path / "images").mkdir()
    for number in range(6):
        Image.new("L", (8, 9 if number < wrong else 8)).save(tmp_path / f"images/{number}.png")
    line = refusal(prepare, settings(source="folder", path=str(tmp_path / "images"), holdout=0.4), 0, tmp_path / "data")
    assert line.startswith(f"{wrong} of 6 images cannot be used: {tmp_path}/images/0.png: 8 × 9 pixels")
    assert [f"{number}.png" in line for number in range(6)] == [number < named for number in range(6)]
    assert line.endswith("; …") == (wrong > named)


@pytest.mark.parametrize("source", ["folder", "array", "cifar10"])
def test_a_path_that_no_file_system_takes(tmp_path, source):
    data = settings(source=source, path=str(tmp_path / ("x" * 300)), image_size=32, channels=3)
    assert "File name too long" in refusal(prepare, data, 0, tmp_path / "data")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("holdout", [0.01, 0.99])
def test_too_few_images_on_either_side(numbered, tmp_path, holdout):
    with pytest.raises(UserError, match=f"data.holdout: {holdout}: holds out .* of 20 images; allowed"):
        prepare(numbered.model_copy(update={"holdout": holdout}), 0, tmp_path / "data")
    assert not (tmp_path / "data").exists()


@given(st.integers(1, 10**6), st.floats(0, 1, exclude_max=True))
def test_the_held_out_part_is_the_share_to_half_an_image(count, holdout):
    try:
        train = training_images(count, holdout)
    except UserError:
        assert holdout * count < 2 or (1 - holdout) * count <= 3.5
        return
    assert 4 <= train <= count - 2
    assert abs(count - train - holdout * count) <= 0.5


def test_a_preparation_that_was_stopped_decodes_no_finished_part_again(tmp_path, monkeypatch):
    (tmp_path / "images").mkdir()
    for value in range(12):
        mode, colour = ("L", 9 * value) if value % 3 else ("RGB", (9 * value, 0, 0))
        Image.new(mode, (8, 8), colour).save(tmp_path / f"images/{value:02d}.png")
    chosen = settings(source="folder", path=str(tmp_path / "images"), channels=3, holdout=0.25)
    whole = prepare(chosen, 1, tmp_path / "whole")
    monkeypatch.setattr(decoding, "PART_BYTES", 4 * 3 * 8 * 8)
    plain, seen = Folder.attempt, list[int]()

    def stopped(images: Folder, index: int) -> Any:
        if len(seen) == 5:  # in the second part
            raise KeyboardInterrupt
        seen.append(index)
        return plain(images, index)

    def counted(images: Folder, index: int) -> Any:
        seen.append(index)
        return plain(images, index)

    monkeypatch.setattr(decoding.os, "sched_getaffinity", lambda _: {0})
    monkeypatch.setattr(Folder, "attempt", stopped)
    with pytest.raises(KeyboardInterrupt):
        prepare(chosen, 1, tmp_path / "data", tmp_path / "parts")
    first, seen[:] = seen[:4], []
    monkeypatch.setattr(Folder, "attempt", counted)
    assert prepare(chosen, 1, tmp_path / "data", tmp_path / "parts") == whole
    assert len(seen) == 8 and not {*seen} & {*first}
    images = [np.load(tmp_path / folder / "images.npy", allow_pickle=False) for folder in ("whole", "data")]
    np.testing.assert_array_equal(*images)
