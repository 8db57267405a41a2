"""Files are whole or absent, damage is reported in one line, hashes are those of the content."""

import csv
import errno
import hashlib
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from one_line import refusal
from safetensors.torch import save_file

from unequal.errors import UserError
from unequal.runtime import files
from unequal.runtime.files import (
    appearing,
    content_hash,
    file_mode,
    files_below,
    put_into_place,
    read_json,
    read_npz,
    require,
    settings_hash,
    write_bytes,
    write_csv,
    write_json,
    write_npz,
)
from unequal.runtime.tensor_files import Saved, write_saved

FACTS = {"n": 3, "shape": [1, 8, 8], "name": "zweiunddreißig", "path": None}


def names(folder: Path) -> list[str]:
    return sorted(item.name for item in folder.iterdir())


def test_json_comes_back_and_stands_alone_in_its_new_folder(tmp_path):
    write_json(tmp_path / "a/b/facts.json", FACTS)
    assert read_json(tmp_path / "a/b/facts.json") == FACTS
    assert names(tmp_path / "a/b") == ["facts.json"]
    write_json(tmp_path / "indented.json", {"a": 1})
    assert (tmp_path / "indented.json").read_text() == '{\n  "a": 1\n}\n'


@pytest.mark.parametrize("content", [{"loss": float("nan")}, [float("inf")], {"x": object()}])
def test_what_json_cannot_carry_leaves_the_old_file(tmp_path, content):
    write_json(tmp_path / "facts.json", FACTS)
    with pytest.raises((ValueError, TypeError)):
        write_json(tmp_path / "facts.json", content)
    assert read_json(tmp_path / "facts.json") == FACTS
    assert names(tmp_path) == ["facts.json"]


@pytest.mark.parametrize("broken", ["fsync", "replace", "chmod"])
@pytest.mark.parametrize("write", [lambda path: write_bytes(path, b"new"), lambda path: write_npz(path, a=np.ones(3))])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, broken, write):
    path = tmp_path / "table.npz"
    path.write_bytes(b"old")

    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, broken, full)
    with pytest.raises(OSError, match="No space left on device"):
        write(path)
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["table.npz"]


def test_an_interruption_behind_the_move_stays_an_interruption(tmp_path, monkeypatch):
    replace = os.replace

    def interrupted(source: str, target: Path) -> None:
        replace(source, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_bytes(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"


def test_what_is_published_is_on_the_disk_before_it_is_moved(tmp_path, monkeypatch):
    write_bytes(tmp_path / "made/in/a", b"1")
    write_bytes(tmp_path / "made/b", b"2")
    synced: list[Path] = []
    monkeypatch.setattr(files, "sync", lambda path: synced.append(path) or path.stat())
    put_into_place(tmp_path / "made", tmp_path / "artifacts/model")
    target = tmp_path / "artifacts"
    assert synced == [target / ".model.new/b", target / ".model.new/in/a", target]


@pytest.fixture(params=[0o022, 0o002, 0o027, 0o077], ids=oct)
def mode(request):
    """The mode of new files under an umask."""
    before = os.umask(request.param)
    file_mode.cache_clear()
    yield 0o666 & ~request.param
    os.umask(before)
    file_mode.cache_clear()


def test_all_writers_respect_the_umask(tmp_path, mode):
    write_bytes(tmp_path / "a", b"1")
    write_npz(tmp_path / "b", a=np.ones(3))
    write_saved(tmp_path / "c", Saved({"a": torch.ones(3)}, {}))
    with appearing(tmp_path / "d") as place:
        place.mkdir()
        save_file({"a": torch.ones(3)}, place / "tensors")  # readable by its owner alone
    assert {oct(file.stat().st_mode & 0o777) for file in files_below(tmp_path)} == {oct(mode)}


def test_a_new_folder_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    target = tmp_path / "models/new"
    (tmp_path / "models/.new.new").mkdir(parents=True)  # left by a kill

    def fails_at(step: str) -> None:
        with appearing(target) as place:
            folder(place, a="1")
            if step == "in the block":
                raise OSError("full")
            monkeypatch.setattr(os, "fsync", full)

    def full(handle: int) -> None:
        raise OSError("full")

    for step in ("in the block", "at its end"):
        with pytest.raises(OSError, match="full"):
            fails_at(step)
        assert names(tmp_path / "models") == []
    monkeypatch.undo()
    with appearing(target) as place:
        folder(place, a="1")
    assert names(tmp_path / "models") == ["new"]
    with pytest.raises(UserError, match="exists already"), appearing(target):
        pass


@pytest.mark.parametrize(
    "content",
    [b"", b'{"n": 3', b"\xff\xfe\x00", b"not json", b'{"a": 1} {"b": 2}', b"1" * 5000, b"[" * 100_000],
    ids=lambda content: content[:8],
)
def test_damaged_json_is_reported_with_its_path(tmp_path, content):
    (tmp_path / "facts.json").write_bytes(content)
    assert refusal(read_json, tmp_path / "facts.json").startswith(f"{tmp_path / 'facts.json'}: not valid JSON")
    assert refusal(read_json, tmp_path) == f"{tmp_path}: cannot be read: Is a directory"


@pytest.mark.parametrize("action", [read_json, require, lambda path: read_npz(path, ["a"])])
def test_a_missing_file_is_reported_with_what_makes_it(tmp_path, action):
    message = refusal(action, tmp_path / "gone")
    assert message.startswith(f"{tmp_path / 'gone'}: missing") and "dvc repro" in message


@pytest.mark.parametrize("name", ["table.npz", "table"])
def test_tables_come_back_bit_by_bit(tmp_path, name):
    tables = {"train": np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32), "empty": np.zeros((5, 0))}
    write_npz(tmp_path / name, **tables)
    found = read_npz(tmp_path / name, ["train", "empty"])
    for key, table in tables.items():
        np.testing.assert_array_equal(found[key], table)
        assert found[key].dtype == table.dtype
    assert names(tmp_path) == [name]


def test_objects_are_not_written_and_leave_nothing(tmp_path):
    with pytest.raises(ValueError, match="allow_pickle"):
        write_npz(tmp_path / "table.npz", a=np.array([{}, None], dtype=object))
    assert names(tmp_path) == []


def cut_to(kept: int) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(path.read_bytes()[:kept])


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def replace_by_one_array(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, np.ones(3))


@pytest.mark.parametrize(
    "spoil",
    [
        *map(cut_to, (0, 1, 30, 200, -1, -40)),
        flip_a_bit,
        replace_by_one_array,
        lambda path: np.savez(path, a=np.array([{}], dtype=object)),
        lambda path: path.write_bytes(pickle.dumps({"a": 1})),
    ],
)
def test_damaged_tables_and_pickles_are_reported_with_their_path(tmp_path, spoil):
    path = tmp_path / "table.npz"
    write_npz(path, a=np.random.default_rng(0).normal(size=100))
    assert refusal(read_npz, path, ["a", "b"]).startswith(f"{path}: no table 'b' in it")
    spoil(path)
    assert refusal(read_npz, path, ["a"]).startswith(f"{path}: damaged")


@pytest.mark.parametrize("algorithm", ["sha256", "md5"])
def test_the_hash_of_a_file_is_that_of_its_bytes(tmp_path, algorithm):
    content = os.urandom((1 << 20) + 17)
    (tmp_path / "a").write_bytes(content)
    assert content_hash(tmp_path / "a", algorithm) == hashlib.new(algorithm, content).hexdigest()


def folder(root: Path, **files: str) -> Path:
    for name, content in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


def test_the_hash_of_a_folder_is_that_of_names_and_contents(tmp_path):
    first = content_hash(folder(tmp_path / "1", a="x", sub__b="y"))
    (tmp_path / "1/.snakemake_timestamp").write_text("an engine's")
    assert files_below(tmp_path / "1") == [tmp_path / "1/a", tmp_path / "1/sub/b"]
    assert content_hash(tmp_path / "1") == first
    assert content_hash(folder(tmp_path / "2", sub__b="y", a="x")) == first
    others = [{"a": "x", "sub__b": "z"}, {"a": "x", "sub__c": "y"}, {"a": "x"}, {"a": "x", "b": "y"}]
    others += [{"a": "y", "sub__b": "x"}]
    hashes = {content_hash(folder(tmp_path / f"other{i}", **other)) for i, other in enumerate(others)}
    assert len(hashes - {first}) == len(others)


def test_settings_are_hashed_whatever_the_order_of_their_keys():
    assert settings_hash({"a": 1, "b": {"c": 2, "d": 3}}) == settings_hash({"b": {"d": 3, "c": 2}, "a": 1})
    assert len({settings_hash(x) for x in ({"a": 1}, {"a": 2}, {"b": 1}, {"a": "1"}, {"a": [1]}, {"a": None})}) == 6


@pytest.mark.parametrize("kind", ["nothing", "file", "folder", "link"])
def test_publishing_replaces_whatever_stood_there(tmp_path, kind):
    target, elsewhere = tmp_path / "out/model", folder(tmp_path / "elsewhere", kept="1")
    target.parent.mkdir()
    if kind == "file":
        target.write_text("old")
    elif kind == "folder":
        folder(target, old="old")
    elif kind == "link":
        target.symlink_to(elsewhere)
    folder(target.with_name(".model.new"), cut="short")  # by a kill
    put_into_place(folder(tmp_path / "staging", new="new"), target)
    assert names(target) == ["new"]
    assert names(tmp_path / "out") == ["model"]
    assert (tmp_path / "staging/new").samefile(target / "new")
    assert names(elsewhere) == ["kept"]


def test_where_there_are_no_hard_links_what_is_published_is_a_copy(tmp_path, monkeypatch):
    def refused(*_: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(os, "link", refused)
    put_into_place(folder(tmp_path / "staging", new="new"), tmp_path / "out/model")
    put_into_place(tmp_path / "staging/new", tmp_path / "a/new/folder/file")
    assert (tmp_path / "out/model/new").read_text() == (tmp_path / "a/new/folder/file").read_text() == "new"
    assert not (tmp_path / "staging/new").samefile(tmp_path / "out/model/new")


def test_rows_come_back_from_csv(tmp_path):
    write_csv(tmp_path / "t.csv", [{"t": 0, "loss": 0.5, "name": "a,b"}, {"t": 1, "loss": 0.25, "name": "c"}])
    with (tmp_path / "t.csv").open(newline="") as file:
        assert list(csv.DictReader(file)) == [
            {"t": "0", "loss": "0.5", "name": "a,b"},
            {"t": "1", "loss": "0.25", "name": "c"},
        ]
    assert (tmp_path / "t.csv").read_bytes().count(b"\r") == 0


def test_what_lies_behind_a_linked_folder_counts(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "here").mkdir()
    (tmp_path / "elsewhere/a").write_text("1")
    (tmp_path / "here/link").symlink_to(tmp_path / "elsewhere")
    assert files_below(tmp_path / "here") == [tmp_path / "here/link/a"]
    before = content_hash(tmp_path / "here")
    (tmp_path / "elsewhere/a").write_text("2")
    assert content_hash(tmp_path / "here") != before
    (tmp_path / "elsewhere/back").symlink_to(tmp_path / "here")
    assert "the same folder as" in refusal(content_hash, tmp_path / "here")
