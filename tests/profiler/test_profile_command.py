"""The console command as its user meets it."""

import signal
from pathlib import Path

import diffusers_folders as tiny
import pytest
import torch
from torch import Tensor

from unequal.cli import main as command
from unequal.profiler.epsilon_errors import EpsilonPredictor, Share, Split


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("command")
    tiny.ddpm(root / "model")
    tiny.write_images(root / "train", 6)
    tiny.write_images(root / "held_out", 4, seed=1)
    return root


def run(folder: Path, *arguments: str) -> int:
    """The exit status in this process; the output folder is below."""
    try:
        command.run(["profile", str(folder / "model"), "--train", str(folder / "train"), "--device", "cpu", *arguments])
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def test_a_profile_leaves_a_page_and_a_file(folder, tmp_path, capsys):
    others = ["--held-out", str(folder / "held_out"), "--against", str(folder / "model")]
    assert run(folder, "--draws", "2", "--out", str(tmp_path / "out"), *others) == 0
    assert {file.name for file in (tmp_path / "out").iterdir()} == {"index.html", "timesteps.json", "cache"}
    said = capsys.readouterr()
    assert "index.html" in said.out and said.err == ""
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    for part in ("Held-out images over training images", "Change by the other model", "Changes by parts"):
        assert part in page


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("--held-out", "nowhere"), 1, "nowhere: missing; needed: a folder of images"),
        (("--against", "a/b@c", "--lora", "d"), 1, "one at a time"),
        (("--device", "abacus"), 1, "--device abacus"),
        (("--draws", "1"), 2, "--draws"),
        (("--precision", "fp8"), 2, "--precision"),
        (("--guidance", "nan"), 1, "--guidance nan: not a finite number"),
    ],
)
def test_wrong_input_is_errors_in_one_line(folder, tmp_path, capsys, arguments, status, said):
    assert run(folder, "--out", str(tmp_path / "out"), *arguments) == status
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("Error: ") and said in line
    assert not (tmp_path / "out").exists()


def test_results_go_to_no_file(folder, tmp_path, capsys):
    (tmp_path / "out").write_text("a file")
    assert run(folder, "--out", str(tmp_path / "out")) == 1
    assert "a file; allowed: a folder" in capsys.readouterr().err
    assert run(folder, "--out", str(tmp_path / "out" / "below")) == 1
    assert f"nothing can be written to {tmp_path / 'out'}" in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_cuda_is_refused_where_there_is_none(folder, tmp_path, capsys):
    assert run(folder, "--out", str(tmp_path / "out"), "--device", "cuda") == 1
    assert "--device cuda: no CUDA devices are here" in capsys.readouterr().err


def test_a_stopped_profile_goes_on_to_the_same_bytes(folder, tmp_path, capsys, monkeypatch):
    """A signal comes in the middle of it, and the next attempt measures only what is missing."""
    asked, first, again = ["--draws", "3", "--batch-size", "4"], tmp_path / "a", tmp_path / "b"
    measured: list[int] = []

    def errors(self: EpsilonPredictor, split: Split, one: Share) -> Tensor:
        measured.append(len(one.draws))
        if sum(measured) == 40:
            signal.raise_signal(signal.SIGTERM)
        return whole(self, split, one)

    whole = EpsilonPredictor.errors
    monkeypatch.setattr(EpsilonPredictor, "errors", errors)
    assert run(folder, *asked, "--out", str(first)) == 128 + signal.SIGTERM
    assert capsys.readouterr().err.strip().splitlines()[-1] == "Stopped. Run the same command again to continue."
    assert list(first.rglob("losses/*.chunk")) and not (first / "timesteps.json").exists()
    assert run(folder, *asked, "--out", str(first)) == 0
    # 24 timesteps with 3 draws each; the batch that was stopped is measured twice.
    assert sum(measured) == 72 + 4
    monkeypatch.undo()
    assert run(folder, *asked, "--out", str(again)) == 0
    assert (first / "timesteps.json").read_bytes() == (again / "timesteps.json").read_bytes()
