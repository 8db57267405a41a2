"""Hashes of files outside the project: written only on a change, checked when the file is read."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from one_line import refusal
from pydantic import TypeAdapter

from unequal.pipeline import sources as module
from unequal.pipeline.sources import (
    SOURCES,
    check_sources,
    current_source,
    refresh_source,
    sources,
    without_paths,
    write_sources,
)
from unequal.runtime.files import read_json
from unequal.settings.values import Outside

Write = Callable[..., None]
PATH = TypeAdapter(Outside)
GRAPH = Path("dvc.yaml")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes a params file; the working directory has images, a network's folder and a bank."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".dvc").mkdir()
    (tmp_path / "images.npz").write_bytes(b"images")
    (tmp_path / "net/unet").mkdir(parents=True)
    (tmp_path / "net/unet/config.json").write_text("{}")
    (tmp_path / "bank.jsonl").write_text("{}\n")

    def to_file(**sections: Any) -> None:
        document = {"data": {"source": "array", "path": "images.npz"}, "network": {"pretrained": "net"}} | sections
        Path("params.yaml").write_text(yaml.safe_dump(document))

    to_file()
    return to_file


def content_hash(path: Path) -> str:
    raise AssertionError(f"{path} was read")


unread = content_hash


def recorded(name: str) -> Any:
    return read_json(SOURCES / f"{name}.json")


def test_every_key_has_a_file_of_its_own(write):
    expert, drawn = {"method": "proxy", "replay": "bank.jsonl"}, {"method": "random"}
    plans = {"ratios/half": {"pruning": expert}, "ratios/all": {"pruning": None}}
    write(pruning={"expert": expert, "drawn": drawn}, plans=plans, extractor={"weights": None})
    assert len(write_sources(GRAPH)) == 7
    assert sorted(file.relative_to(SOURCES).as_posix() for file in SOURCES.rglob("*.json")) == [
        "data.json", "extractor.json", "network.json", "plans/ratios/all.json", "plans/ratios/half.json",
        "pruning/drawn.json", "pruning/expert.json",
    ]  # fmt: skip
    assert all(recorded(name)["source"] is None for name in ("extractor", "pruning/drawn", "plans/ratios/all"))
    assert recorded("pruning/expert") == recorded("plans/ratios/half")
    assert set(recorded("data")) == {"settings", "sha256"}
    write()
    gone = [line for line in write_sources(GRAPH) if line.endswith(": deleted")]
    assert len(gone) == 5, "files of vanished keys go"


def test_a_file_changes_with_content_and_settings_alone(write, monkeypatch):
    assert len(write_sources(GRAPH)) == 2
    before = {file: file.stat().st_mtime_ns for file in SOURCES.rglob("*.json")}
    os.utime("images.npz", (1, 1))
    os.utime("net/unet/config.json", (1, 1))
    assert write_sources(GRAPH) == []
    assert {file: file.stat().st_mtime_ns for file in before} == before
    with monkeypatch.context() as patch:
        patch.setattr(module, "content_hash", unread)
        assert write_sources(GRAPH) == [], "what has not changed is not read again"
    Path("images.npz").write_bytes(b"others")
    assert write_sources(GRAPH) == [f"{SOURCES}/data.json: changed"]
    write(data={"path": "images.npz", "source": "array", "fit": "crop"})
    assert write_sources(GRAPH) == [f"{SOURCES}/data.json: changed"], "the settings next to a source count"


def test_a_file_names_no_place_and_stays_where_its_source_is_moved(write, tmp_path):
    write_sources(GRAPH)
    files = sorted(SOURCES.rglob("*.json"))
    before = [file.read_bytes() for file in files]
    assert not any(str(tmp_path).encode() in content or b"images" in content for content in before)
    Path("elsewhere").mkdir()
    os.rename("images.npz", "elsewhere/set.npz")
    write(data={"source": "array", "path": str(tmp_path / "elsewhere/set.npz")})
    assert write_sources(GRAPH) == [] and [file.read_bytes() for file in files] == before


@pytest.mark.parametrize("path", ["~/images.npz", "$HOME/images.npz", "${UNEQUAL_SCRATCH}/images.npz"])
def test_home_and_variables_in_paths(write, tmp_path, monkeypatch, path):
    for name in ("HOME", "UNEQUAL_SCRATCH"):
        monkeypatch.setenv(name, str(tmp_path))
    write_sources(GRAPH)
    os.chdir("net")
    Path("dvc.yaml").touch()
    write(data={"source": "array", "path": path}, network={"pretrained": "../net"})
    write_sources(GRAPH)
    assert recorded("data") == read_json(tmp_path / SOURCES / "data.json")
    assert PATH.validate_python(path) == str(tmp_path / "images.npz")


def test_in_a_copy_of_dvc_a_relative_path_is_that_of_the_project(write, tmp_path):
    write_sources(GRAPH)
    for below, path in ((".", "images.npz"), ("studies/x", "../../images.npz")):
        copy = tmp_path / ".dvc/tmp/exps/tmp1234" / below
        copy.mkdir(parents=True, exist_ok=True)
        (tmp_path / below).mkdir(parents=True, exist_ok=True)
        os.chdir(copy)
        write(data={"source": "array", "path": path}, network={"pretrained": None})
        write_sources(GRAPH)
        assert recorded("data") == read_json(tmp_path / SOURCES / "data.json")
        assert Path(PATH.validate_python(path)).samefile(tmp_path / "images.npz")


def test_a_place_is_no_part_of_what_is_logged(write, tmp_path):
    write(data={"source": "array", "path": str(tmp_path / "images.npz"), "fit": "images.npz"}, seed=1)
    write_sources(GRAPH)
    document = yaml.safe_load(Path("params.yaml").read_text())
    found = without_paths(document, document)
    hashes = [recorded(name)["sha256"] for name in ("data", "network")]
    assert found == {
        "data": {"source": "array", "path": hashes[0], "fit": "images.npz"}, "network": {"pretrained": hashes[1]},
        "seed": 1,
    }  # fmt: skip


def test_a_replaced_file_of_the_same_size_and_time_is_noticed(write):
    write_sources(GRAPH)
    times = os.stat("images.npz")
    Path("other.npz").write_bytes(b"IMAGES")
    os.utime("other.npz", ns=(times.st_atime_ns, times.st_mtime_ns))
    os.replace("other.npz", "images.npz")
    assert write_sources(GRAPH) == [f"{SOURCES}/data.json: changed"]


CHANGES: dict[str, Callable[[Path], object]] = {
    "content": lambda file: file.write_text("[]"),
    "name": lambda file: file.rename("net/config.json"),
    "further": lambda file: file.with_name("weights").touch(),
    "gone": Path.unlink,
}


@pytest.mark.parametrize("change", CHANGES)
def test_of_a_folder_paths_and_contents_count(write, change):
    write_sources(GRAPH)
    CHANGES[change](Path("net/unet/config.json"))
    assert write_sources(GRAPH) == [f"{SOURCES}/network.json: changed"]


@pytest.mark.parametrize("content", ["[]", "{"])
def test_a_damaged_memory_costs_a_hash_and_nothing_else(write, content):
    write_sources(GRAPH)
    Path("work/digests.json").write_text(content)
    assert write_sources(GRAPH) == []
    assert read_json(Path("work/digests.json"))


def test_a_model_on_the_hub_is_identified_by_its_commit(write):
    write(network={"pretrained": f"someone/something@{COMMIT}"})
    write_sources(GRAPH)
    assert recorded("network")["source"] == f"someone/something@{COMMIT}"
    write(network={"pretrained": f"someone/something@{COMMIT[::-1]}"})
    assert write_sources(GRAPH) == [f"{SOURCES}/network.json: changed"]


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"network": {"pretrained": "lost"}}, "network.pretrained: lost: missing; allowed: a file or folder"),
        *(
            (
                {"network": {"pretrained": f"a/b{at}"}},
                f"network.pretrained: a/b{at}: no such folder; on the Hub it needs",
            )
            for at in ("", "@main", f"@{COMMIT[:7]}")
        ),
        ({"network": {"pretrained": "x" * 300}}, "network.pretrained: xxx"),
        ({"data": {"source": "folder", "path": "lost"}}, "data.path: lost: missing"),
        ({"extractor": {"weights": "a/b/c@main"}}, "extractor.weights: a/b/c@main: missing"),
        ({"autoencoder": {"source": "x y/z@main"}}, "autoencoder.source: x y/z@main: missing"),
        ({"pruning": {"expert": {"replay": "lost"}}}, "pruning.expert.replay: lost: missing"),
        ({"plans": {"a/b": {"pruning": {"replay": "lost"}}}}, "plans.a/b.pruning.replay: lost: missing"),
    ],
)
def test_what_is_not_there_is_refused_by_the_writer_and_by_the_gate(write, sections, said):
    write(**sections)
    assert refusal(write_sources, GRAPH).startswith(f"params.yaml: {said}")
    assert refusal(check_sources).startswith(f"params.yaml: {said}")
    assert not SOURCES.exists()


def test_what_cannot_be_read_is_refused(write):
    Path("net/loop").symlink_to(Path("net").resolve())
    line = refusal(write_sources, GRAPH)
    assert line.startswith("params.yaml: network.pretrained: ") and "whose files would count twice" in line


@pytest.mark.parametrize(
    "sections",
    [
        {"data": {"source": "cifar10", "path": "to/come"}},
        {"data": None},
        {"data": {"path": 3}},
        {"pruning": {"../../out": {"replay": "bank.jsonl"}}},
        {"pruning": ["expert"]},
        {"plans": {"a": {"pruning": "bank.jsonl"}}},
    ],
)
def test_what_the_gate_refuses_or_a_download_brings_is_nothing_outside(write, sections):
    write(**sections)
    write_sources(GRAPH)
    named = {name: source.value for name, source in sources(yaml.safe_load(Path("params.yaml").read_text())).items()}
    assert {value for value in named.values() if value} <= {"images.npz", "net"}
    assert [file for file in Path().rglob("*.json") if SOURCES not in file.parents and "out" in file.name] == []


def test_a_stage_reads_a_source_as_it_is_when_it_starts(write, capsys):
    refresh_source("data")
    refresh_source("data")
    assert capsys.readouterr().err == ""
    for change, said in (
        (lambda: Path("images.npz").write_bytes(b"others"), f"{SOURCES}/data.json: replaced since the engine began"),
        (lambda: write(data={"path": "images.npz", "source": "array", "fit": "crop"}), None),
    ):
        before = recorded("data")
        change()
        refresh_source("data")
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == (said is not None) and (said is None or lines[0].startswith(said))
        assert recorded("data") == current_source("data") != before
        assert write_sources(GRAPH)[1:] == []
