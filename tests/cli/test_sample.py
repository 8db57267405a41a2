"""Pictures of a model: those that evaluation scores."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from commands import done, refused
from graph import ROOT
from PIL import Image

from unequal.cli import sample
from unequal.cli.sample import tiled
from unequal.models.folder import save_model
from unequal.runtime.files import write_json
from unequal.sampling.ensemble import Ensemble
from unequal.settings.strict import read_yaml

STEPS = 4


@pytest.fixture
def trained(project: Path, tiny_net: Callable[..., Any], make_record: Callable[..., Any]) -> Path:
    """A project with a model, a score and settings."""
    params = read_yaml(ROOT / "presets/digits.yaml")
    params["sampling"] |= {"batch_size": 3, "steps": STEPS}
    params["runtime"] |= {"device": "cpu"}
    (project / "params.yaml").write_text(yaml.safe_dump(params))
    net = tiny_net()
    save_model(project / "artifacts/models/longer", net, make_record(net))
    write_json(project / "results/take.json", {"model": "longer", "fid": 1.0})
    return project


def pictures(folder: Path) -> np.ndarray:
    return np.stack([np.array(Image.open(file)) for file in sorted(folder.glob("*.png"))])


def test_pictures_are_those_of_the_ensemble_for_the_same_seed(trained: Path):
    line = done("sample", "--count", 7, "--seed", 1, "--out", "some")
    assert line == "some: 7 images of artifacts/models/longer, seed 1\n"
    ensemble = Ensemble.load("artifacts/models/longer")
    steps = np.linspace(ensemble.schedule.timesteps - 1, 0, STEPS).round().astype(int).tolist()
    expected = ensemble.sample(7, steps, batch_size=3, seed=1, clip=read_yaml(Path("params.yaml"))["sampling"]["clip"])
    np.testing.assert_array_equal(pictures(trained / "some"), expected[:, 0].numpy())
    done("sample", "artifacts/models/longer", "--count", 7, "--seed", 1, "--out", "same", "--steps", STEPS)
    np.testing.assert_array_equal(pictures(trained / "same"), pictures(trained / "some"))
    done("sample", "longer", "--count", 7, "--seed", 1, "--out", "one", "--grid")
    (grid,) = pictures(trained / "one")
    assert grid.shape == (18 * 3 * 9, 18 * 3 * 9)  # a pixel between pictures; enlarged to 512 pixels at most
    np.testing.assert_array_equal(grid[::18, ::18][9:17, :8], pictures(trained / "some")[3])
    assert (grid[::18, ::18][8] == 255).all()


def test_interpolated_pictures_lead_from_one_seed_to_another(trained: Path) -> None:
    done("sample", "--count", 5, "--seed", 1, "--interpolate", 2, "--out", "way")
    for seed, place in ((1, 0), (2, 4)):
        done("sample", "--count", 1, "--seed", seed, "--out", f"end{seed}")
        end = pictures(trained / f"end{seed}")[0].astype(int)
        assert np.abs(pictures(trained / "way")[place] - end).max() <= 1  # rounded to 256 values
    ensemble = Ensemble.load("artifacts/models/longer")
    start = sample.PictureRequest("longer", 5, seed=1, interpolate=2).start(ensemble)
    assert start is not None
    lengths = start.flatten(1).norm(dim=1)
    assert lengths.min() > 0.95 * lengths[[0, -1]].min()  # half-way on the straight line they would be 0.7 of it
    assert pictures(trained / "way").std(axis=0).max() > 0


def test_a_grid_is_filled_row_by_row_and_black_behind_the_last():
    grid = tiled(np.arange(1, 6, dtype=np.uint8)[:, None, None, None] * np.ones((1, 3, 2, 2), np.uint8))
    assert grid.shape == (3, 4, 6)
    assert grid[0, ::2, ::2].tolist() == [[1, 2, 3], [4, 5, 0]]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("best --label 1", "an unconditional model takes no labels"),
        ("worst", "worst: no such model; allowed: best, the folder of a model, or one of artifacts/models: longer"),
        ("best --steps 100000", "--steps: 100000; the model has 50 timesteps, 0 … 49"),
    ],
)
def test_what_cannot_be_sampled_is_refused(trained: Path, arguments: str, line: str):
    assert line in refused("sample", *arguments.split())
    assert not (trained / "samples").exists()
    (trained / "results/take.json").write_text("{}")
    assert refused("sample") == "results/take.json: names no model to take; make it again\n"
