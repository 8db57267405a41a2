"""Two runs' outputs, compared as they are and under new names."""

import json
from pathlib import Path

import pytest

from unequal.tools import renames
from unequal.tools.outputs import differences
from unequal.tools.renames import Renamed, with_new_keys, with_new_names

OUTS = {"made", "figures.json", "log.jsonl", "table.csv"}


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    """Two folders with the same outputs."""
    for name, seconds in (("before", 1), ("after", 2)):
        folder = tmp_path / name
        (folder / "made").mkdir(parents=True)
        (folder / "made" / "weights.bin").write_bytes(b"123")
        (folder / "figures.json").write_text(
            json.dumps({"fid": 3.0, "parts": [{"seconds": seconds}], "seed": 1, "own_seconds": seconds})
        )
        (folder / "log.jsonl").write_text(f'{{"loss": 1.0, "images_per_second": {seconds}}}\n')
        (folder / "table.csv").write_text(f"step,seconds\n1,{seconds}\n")
    return tmp_path / "before", tmp_path / "after"


def compare(runs: tuple[Path, Path], before: set[str] = OUTS, after: set[str] = OUTS) -> list[str]:
    return differences(*runs, (before, after))


def test_seconds_and_speeds_are_left_out(runs: tuple[Path, Path]):
    assert compare(runs) == []


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("made/weights.bin", "124"),
        ("figures.json", '{"fid": 3.1, "parts": [{"seconds": 2}], "seed": 1}'),
        ("log.jsonl", '{"loss": 2.0, "images_per_second": 2}\n'),
        ("table.csv", "step,seconds\n2,2\n"),
    ],
)
def test_all_else_counts(runs: tuple[Path, Path], file: str, text: str):
    (runs[1] / file).write_text(text)
    assert compare(runs) == [f"{file}: differs"]


def test_files_of_one_side_are_named(runs: tuple[Path, Path]):
    (runs[1] / "made" / "weights.bin").rename(runs[1] / "made" / "model.bin")
    assert compare(runs) == ["made/model.bin: was not made before", "made/weights.bin: is made no longer"]


def test_renamed_files_and_keys_are_compared_under_their_new_names(
    runs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(renames.FILES, "made", "models")
    runs[1].joinpath("made").rename(runs[1] / "models")
    keys = [Renamed("figures.json", "seed", "run.seed"), Renamed("figures.json", "fid", "score", {3.0: "three"})]
    monkeypatch.setattr(renames, "KEYS", [*keys, Renamed("figures.json", None, "kind", {None: "small"})])
    assert compare(runs, OUTS, OUTS - {"made"} | {"models"}) == ["figures.json: differs"]
    figures = {"run": {"seed": 1}, "score": "three", "kind": "small", "parts": [{}]}
    (runs[1] / "figures.json").write_text(json.dumps(figures))
    assert compare(runs, OUTS, OUTS - {"made"} | {"models"}) == []


def test_a_key_that_is_missing_is_not_made(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(renames, "KEYS", [Renamed("*.json", "a.b", "c")])
    assert with_new_keys("x.json", {"a": {}}) == {"a": {}}
    assert with_new_keys("x.json", {"a": {"b": 1}}) == {"a": {}, "c": 1}
    assert with_new_keys("x.txt", {"a": {"b": 1}}) == {"a": {"b": 1}}


def test_a_lock_is_told_under_new_names(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(renames.STAGES, "draw", "paint")
    monkeypatch.setitem(renames.FILES, "made", "models")
    lock = {"schema": "2.0", "stages": {"draw": {"cmd": "x", "deps": [{"path": "a"}], "outs": [{"path": "made/b"}]}}}
    assert with_new_names(lock) == {
        "schema": "2.0",
        "stages": {"paint": {"cmd": "x", "deps": [{"path": "a"}], "outs": [{"path": "models/b"}]}},
    }


def test_a_locks_settings_are_told_under_new_names(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(renames, "SETTINGS", {"grid.batch": "grid.size", "seed": "key"})
    stages = {
        "whole": {"cmd": "x", "params": {"params.yaml": {"grid": {"batch": 3, "seed": 1}, "seed": 2}}},
        "single": {"cmd": "x", "params": {"params.yaml": {"grid.batch": 3, "grid.seed": 1}}},
    }
    assert with_new_names({"stages": stages})["stages"] == {
        "whole": {"cmd": "x", "params": {"params.yaml": {"grid": {"size": 3, "seed": 1}, "key": 2}}},
        "single": {"cmd": "x", "params": {"params.yaml": {"grid.size": 3, "grid.seed": 1}}},
    }


def test_metadata_of_tensors_have_no_order_and_numbers_count(tmp_path: Path):
    heads = ({"a": "1", "b": "2"}, {"b": "2", "a": "1"}, {"a": "1", "b": "2"})
    for name, metadata, numbers in zip(("one", "two", "three"), heads, (b"12", b"12", b"13"), strict=True):
        (tmp_path / name).mkdir()
        head = json.dumps({"__metadata__": metadata}).encode()
        (tmp_path / name / "state.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + numbers)
    outs = ({"state.safetensors"}, {"state.safetensors"})
    assert differences(tmp_path / "one", tmp_path / "two", outs) == []
    assert differences(tmp_path / "one", tmp_path / "three", outs) == ["state.safetensors: differs"]
