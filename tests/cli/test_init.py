"""A params file for a folder of images: what is seen there, what is chosen by it, and what is not overwritten."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import done, refused
from graph import ROOT
from PIL import ExifTags, Image

from unequal.cli import estimate
from unequal.cli.survey import Survey
from unequal.diffusion.schedule import noise_schedule
from unequal.pipeline.params_files import check_params
from unequal.settings.params import Params
from unequal.settings.strict import read_yaml
from unequal.timesteps.groups import timestep_groups

MINE = Path("mine/params.yaml")
GENERATOR = np.random.default_rng(0)


def write(file: Path, mode: str = "RGB", size: tuple[int, int] = (40, 40)) -> None:
    """Write a random picture of one of Pillow's modes."""
    bands = len(Image.new(mode, (1, 1)).getbands())
    pixels = GENERATOR.integers(0, 250, (*size[::-1], bands), dtype=np.uint8)
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.squeeze()).save(file)


@pytest.fixture
def here(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with `images`: 57 in colour, and three with a peculiarity each, in two folders."""
    monkeypatch.setattr(estimate, "start_seconds", lambda: 1.0)
    monkeypatch.setattr(estimate, "TIMED_MACS", 1e7)
    for number in range(55):
        write(project / f"images/cats/{number:02}.png")
    write(project / "images/cats/grey.png", "L")
    write(project / "images/cats/see-through.png", "RGBA")
    write(project / "images/dogs/wide.png", size=(90, 40))
    write(project / "images/dogs/tiny.png", size=(9, 9))
    (project / "images/dogs/copy.png").write_bytes((project / "images/cats/07.png").read_bytes())
    return project


@pytest.fixture
def unpriced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Costs are neither counted nor measured."""
    for name in ("brief", "extent"):
        monkeypatch.setattr(estimate, name, lambda params: "measured elsewhere")


def test_what_is_odd_is_said_and_the_file_fits_the_images(here: Path) -> None:
    lines = done("init", "mine", "--images", "images", "--size", 32, "--all-methods").splitlines()
    assert lines.pop(0) == "images: reads the images …"
    assert lines[0] == "images: 60 images, 9 × 9 to 90 × 40 pixels (58 RGB, 1 L, 1 RGBA), 2 classes: cats 57, dogs 3"
    odd = [line.removeprefix("  note: ") for line in lines if line.startswith("  note: ")]
    assert odd[:5] == [
        "1 (see-through.png) have transparent pixels, put on data.background (white by default)",
        "1 (grey.png) are grey among colour, and are made RGB",
        "1 (copy.png) are copies of another file: equal images stand on one side of the split",
        "1 are smaller than 32 pixels, and are enlarged",
        "1 lose more than a third by a square crop (data.fit: resize squeezes them instead)",
    ]
    assert odd[5:7] == ["class cats holds 95 % of all images", "classes of fewer than 10 images: dogs"]
    params = Params.read(MINE)
    assert (params.data.path, params.data.image_size, params.data.channels) == ("../images", 32, 3)
    assert (params.data.fit, params.data.holdout, params.extractor.kind) == ("crop", 0.2, "classifier")
    # 48 images are trained on, at most 1,000 times each; the experts together cost as much as their control.
    budgets = {name: recipe.images for name, recipe in params.recipes.items()}
    assert 47_000 < budgets["base"] <= 48_000
    assert budgets["longer"] == budgets["expert"] * len(params.groups.ids)
    assert params.evaluation.allow_singular and params.evaluation.kid_subset == 24
    (cost,) = (number for number, line in enumerate(lines) if line.startswith("cost: "))
    assert "FLOPs" in lines[cost] and "on this machine's cpu" in lines[cost + 2]


@pytest.mark.usefixtures("unpriced")
def test_one_model_is_asked_for_and_the_further_ones_are_named(here: Path) -> None:
    said = done("init", "mine", "--images", "images", "--size", 16)
    params = Params.read(MINE)
    assert params.scored_models == params.profiled_models == ("base",)
    assert all(name in said for name in ("mixed", "slot_5", "experts_pruned"))
    (line,) = (line for line in MINE.read_text().splitlines() if line.startswith("scored_models:"))
    assert "experts_pruned" in line


def test_turned_pictures_count_as_they_stand_upright(tmp_path: Path) -> None:
    lying = Image.Exif()
    lying[ExifTags.Base.Orientation] = 6
    write(tmp_path / "upright.png", size=(30, 20))
    Image.new("RGB", (20, 30)).save(tmp_path / "lying.jpg", exif=lying)
    survey = Survey.of(tmp_path, 16)
    assert survey.summary().startswith("2 images, 30 × 20 pixels")
    assert "1 are turned upright, as their EXIF data say" in survey.oddities(16)


@pytest.mark.usefixtures("unpriced")
def test_a_damaged_picture_is_said_at_once_and_no_check_is_passed(here: Path) -> None:
    cut = here / "images/dogs/wide.png"
    cut.write_bytes(cut.read_bytes()[:-300])
    said = done("init", "mine", "--images", "images", "--size", 32)
    assert "  note: 1 (wide.png) cannot be read: training refuses such files; remove or replace them\n" in said
    assert "../images/dogs/wide.png: not a readable image; repair or remove it" in refused("check", "mine")


@pytest.mark.parametrize("size", [16, 32, 64, 128])
@pytest.mark.parametrize("gpu", [[], ["--gpu"]])
@pytest.mark.usefixtures("unpriced")
def test_every_size_has_a_sound_file(here: Path, size: int, gpu: list[str]) -> None:
    done("init", "mine", "--images", "images/cats", "--size", size, *gpu, "--all-methods")
    params = Params.read(MINE)
    assert params.data.image_size == size
    assert params.extractor.kind == "rotations"  # no subfolders, so no labels
    preset = read_yaml(ROOT / "presets" / ("own-images-32.yaml" if gpu else "own-images-cpu.yaml"))
    same = {"schedule", "groups", "slots", "pruning", "scored_models"}
    made = read_yaml(MINE)
    assert {name: made[name] for name in same} == {name: preset[name] for name in same}


@pytest.mark.usefixtures("unpriced")
def test_grey_squares_of_the_size_stay_as_they_are(project: Path) -> None:
    for number in range(2100):
        write(project / f"images/{number}.png", "L", (16, 16))
    lines = done("init", "mine", "--images", "images", "--size", 16)
    assert "  note: " not in lines
    data: dict[str, Any] = read_yaml(MINE)["data"]
    assert (data["channels"], data["fit"], data["holdout"]) == (1, "exact", 0.05)


@pytest.mark.usefixtures("unpriced")
@pytest.mark.parametrize(
    ("method", "gpu", "density", "weight"),
    [
        (None, [], "uniform", "min_snr"),
        (None, ["--gpu"], "uniform", "min_snr"),
        ("logit_normal", ["--gpu"], "logit_normal", "none"),
        ("uniform", [], "uniform", "none"),
    ],
)
def test_a_flow_has_its_method_in_base_and_control(
    here: Path, monkeypatch: pytest.MonkeyPatch, gpu: list[str], method: str | None, density: str, weight: str
) -> None:
    options = ["--method", method] if method else []
    done("init", "mine", "--images", "images", "--size", 16, "--flow", *gpu, *options, "--batch-size", 32)
    monkeypatch.chdir("mine")
    params = check_params()
    assert isinstance(params, Params)
    assert (params.schedule.name, params.training.batch_size) == ("flow", 32)
    for name in ("base", "longer"):
        recipe = params.recipes[name]
        assert (recipe.prediction, recipe.sampler.density, recipe.loss_weight.kind) == ("velocity", density, weight)
    # Experts learn by the control's weight, meet where SNR is 1, and see as many images as the control together.
    assert params.recipes["expert"].loss_weight.kind == weight
    assert params.recipes["longer"].images == 2 * params.recipes["expert"].images
    low, high = timestep_groups("snr", table := noise_schedule(params.schedule), len(params.groups.ids), 0.5)
    snr = table.snr[[low.range.last, high.range.first]].tolist()
    assert snr[0] > 1 > snr[1] or 1 in map(round, snr)


@pytest.mark.usefixtures("unpriced")
def test_a_file_that_nobody_has_edited_is_written_anew_and_edits_are_not_lost(here: Path) -> None:
    done("init", "mine", "--images", "images", "--size", 16)
    done("init", "mine", "--images", "images", "--size", 32, "--flow")
    text = MINE.read_text()
    assert "image_size: 32" in text and "`unequal init mine --images images --size 32 --flow`" in text
    MINE.write_text(edits := text.replace("seed: 0", "seed: 1"))
    assert refused("init", "mine", "--images", "images", "--size", 16).startswith("mine/params.yaml: holds edits")
    assert MINE.read_text() == edits


def test_a_preset_keeps_its_models_and_its_path_from_here(project: Path) -> None:
    done("init", "mine", "--preset", "cifar10-ddpm")
    preset, made = read_yaml(ROOT / "presets/cifar10-ddpm.yaml"), read_yaml(MINE)
    assert made == preset | {"data": preset["data"] | {"path": f"../{preset['data']['path']}"}}
    assert "; allowed: cifar10-ddpm, " in refused("init", "other", "--preset", "none")
    assert not Path("other").exists()


def test_a_file_for_a_gpu_has_its_cost_but_for_the_time(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    lines = done("init", "mine", "--images", "images", "--size", 16, "--gpu").splitlines()
    (cost,) = (number for number, line in enumerate(lines) if line.startswith("cost: "))
    assert all(unit in lines[cost] for unit in (" parameters", " images", " FLOPs", " GB"))
    assert lines[cost + 1] == "  time: no GPU is here to measure it; where one is, `unequal estimate` does"


def test_a_folder_without_images_is_refused_and_nothing_is_written(here: Path) -> None:
    (here / "empty").mkdir()
    assert refused("init", "mine", "--images", "empty", "--size", 16).startswith("empty: no images in it")
    assert not Path("mine").exists()


@pytest.mark.usefixtures("unpriced")
def test_too_few_images_are_refused_and_as_many_as_asked_for_pass_the_check(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(7):
        write(project / f"images/{number}.png")
    arguments = ("init", "mine", "--images", "images", "--size", 16)
    assert refused(*arguments) == "images: 7 images; allowed: at least 8\n"
    assert not Path("mine").exists()
    write(project / "images/7.png")
    done(*arguments)
    monkeypatch.chdir("mine")
    assert check_params().data.holdout == 0.2
