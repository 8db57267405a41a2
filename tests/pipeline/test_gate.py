"""The gate checks the whole file, wherever the project lies and whatever its folder is called."""

import importlib
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from params_files import edited

from unequal.errors import UserErrors
from unequal.pipeline.params_files import check_params

ROOT = Path(__file__).parents[2]
#: Folders, one of each depth: the pipeline's, that of latents, an experiment's.
FOLDERS = [Path(), Path("studies/latent"), Path("tests/experiments/tiny")]


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
def test_in_a_folder_called_studies(project, monkeypatch, folder):
    clone = "studies/unequal"
    here = project / clone / folder
    here.mkdir(parents=True)
    (project / clone / ".dvc").mkdir()
    monkeypatch.chdir(here)
    own = ROOT.joinpath(*folder.parts[:2], "stages/check_params.py")
    package = ".".join(folder.parts[:2]) if own.exists() else "unequal.experiments"
    settings = ROOT / ("presets/digits.yaml" if folder == Path() else folder / "params.yaml")
    main = importlib.import_module(f"{package}.stages.check_params".lstrip(".")).main
    edited(settings, {"colour": "red"}, here)
    result = CliRunner().invoke(main, [])
    assert (result.exit_code, result.output.count("\n")) == (1, 1)
    assert re.match(r"check_params: params.yaml:\d+: colour: unknown key; allowed here: seed, runtime, ", result.output)
    assert not Path("artifacts/params_checked.json").exists()
    edited(settings, {}, here)
    assert CliRunner().invoke(main, []).exit_code == 0
    assert Path("artifacts/params_checked.json").exists()
    assert [path for path in project.rglob("work") if path != here / "work"] == []


def test_all_that_the_images_lack_is_listed(tmp_path):
    np.save(tmp_path / "forty.npy", np.zeros((40, 8, 8), np.uint8))
    data = {"path": str(tmp_path / "forty.npy"), "source": "array", "image_size": 8, "channels": 1, "fit": "exact"}
    changes = {"data": data | {"holdout": 0.5}, "extractor.kind": "classifier"}
    file = edited(ROOT / "presets/digits.yaml", changes, tmp_path)
    with pytest.raises(UserErrors) as refused:
        check_params(file)
    places = [line.split(": ")[1] for line in refused.value.lines]
    assert sorted(places) == ["evaluation.allow_singular", "evaluation.kid_subset", "extractor.kind"]
