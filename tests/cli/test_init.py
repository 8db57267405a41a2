"""A params file for a folder of images: what is seen there, what is chosen by it, and what is not overwritten."""

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import done, refused
from graph import ROOT
from PIL import Image

from unequal.cli import estimate
from unequal.settings.params import Params
from unequal.settings.strict import read_yaml

GENERATOR = np.random.default_rng(0)


def write(file: Path, mode: str = "RGB", size: tuple[int, int] = (40, 40)) -> None:
    """Write a random picture of one of Pillow's modes."""
    bands = len(Image.new(mode, (1, 1)).getbands())
    pixels = GENERATOR.integers(0, 250, (*size[::-1], bands), dtype=np.uint8)
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.squeeze()).save(file)


@pytest.fixture
def here(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with presets and `images`: 57 in colour, and three with a peculiarity each, in two folders."""
    monkeypatch.setattr(estimate, "start_seconds", lambda: 1.0)
    monkeypatch.setattr(estimate, "TIMED_MACS", 1e7)
    (project / "presets").symlink_to(ROOT / "presets")
    for number in range(55):
        write(project / f"images/cats/{number:02}.png")
    write(project / "images/cats/grey.png", "L")
    write(project / "images/cats/see-through.png", "RGBA")
    write(project / "images/dogs/wide.png", size=(90, 40))
    write(project / "images/dogs/tiny.png", size=(9, 9))
    (project / "images/dogs/copy.png").write_bytes((project / "images/cats/07.png").read_bytes())
    return project


def test_what_is_odd_is_said_and_the_file_fits_the_images(here: Path) -> None:
    lines = done("init", "--images", "images", "--size", 32).splitlines()
    assert lines[0] == "images: 60 images, 9 × 9 to 90 × 40 pixels (58 RGB, 1 L, 1 RGBA), 2 classes"
    odd = [line.removeprefix("  odd: ") for line in lines if line.startswith("  odd: ")]
    assert odd[:5] == [
        "1 (see-through.png) have transparent pixels, put on data.background (white by default)",
        "1 (grey.png) are grey among colour, and are made RGB",
        "1 (copy.png) are copies of another file: equal images stand on one side of the split",
        "1 are smaller than 32 pixels, and are enlarged",
        "1 lose more than a third by a square crop (data.fit: resize squeezes them instead)",
    ]
    assert odd[5:7] == ["class cats holds 95 % of all images", "1 classes have fewer than 10 images, dogs among them"]
    params = Params.read(Path("params.yaml"))
    assert (params.data.path, params.data.image_size, params.data.channels) == ("images", 32, 3)
    assert (params.data.fit, params.data.holdout, params.extractor.kind) == ("crop", 0.2, "classifier")
    # 48 images are trained on, at most 1,000 times each; the experts together cost as much as their control.
    budgets = {name: recipe.images for name, recipe in params.recipes.items()}
    assert 47_000 < budgets["base"] <= 48_000
    assert budgets["longer"] == budgets["expert"] * len(params.groups.ids)
    assert params.evaluation.allow_singular and params.evaluation.kid_subset == 24
    assert any(line.startswith("cost: ") and "on this machine's cpu about" in line for line in lines)


@pytest.mark.parametrize("size", [16, 32, 64, 128])
@pytest.mark.parametrize("gpu", [[], ["--gpu"]])
def test_every_size_has_a_sound_file(here: Path, size: int, gpu: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "brief", lambda params: "measured elsewhere")
    done("init", "--images", "images/cats", "--size", size, *gpu, "--out", "mine.yaml")
    params = Params.read(Path("mine.yaml"))
    assert params.data.image_size == size
    assert params.extractor.kind == "rotations"  # no subfolders, so no labels
    preset = read_yaml(ROOT / "presets" / ("own-images-32.yaml" if gpu else "own-images-cpu.yaml"))
    same = {"schedule", "groups", "slots", "pruning", "merging", "variants"}
    made = read_yaml(Path("mine.yaml"))
    assert {name: made[name] for name in same} == {name: preset[name] for name in same}


def test_grey_squares_of_the_size_stay_as_they_are(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "brief", lambda params: "measured elsewhere")
    (project / "presets").symlink_to(ROOT / "presets")
    for number in range(2100):
        write(project / f"images/{number}.png", "L", (16, 16))
    lines = done("init", "--images", "images", "--size", 16)
    assert "  odd: " not in lines
    data: dict[str, Any] = read_yaml(Path("params.yaml"))["data"]
    assert (data["channels"], data["fit"], data["holdout"]) == (1, "exact", 0.05)


def test_settings_that_git_does_not_hold_are_not_overwritten(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "brief", lambda params: "measured elsewhere")
    Path("params.yaml").write_text("mine: true\n")
    arguments = ["init", "--images", "images", "--size", 16]
    line = "params.yaml: would be overwritten, and git does not hold it as it is; commit it, or name another --out\n"
    assert refused(*arguments) == line
    as_someone = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "params.yaml"], [*as_someone, "commit", "-qma"]):
        subprocess.run(["git", *command], check=True)
    Path("params.yaml").write_text("mine: false\n")
    assert refused(*arguments) == line
    subprocess.run(["git", "checkout", "-q", "params.yaml"], check=True)
    done(*arguments)
    assert Params.read(Path("params.yaml")).data.path == "images"


def test_a_folder_without_images_is_refused_and_nothing_is_written(here: Path) -> None:
    (here / "empty").mkdir()
    assert refused("init", "--images", "empty", "--size", 16).startswith("empty: no images in it")
    assert not Path("params.yaml").exists()
