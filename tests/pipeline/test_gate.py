"""The gate checks the whole file, wherever the project lies and whatever its folder is called."""

import importlib
from pathlib import Path

import pytest
from click.testing import CliRunner
from params_files import edited

ROOT = Path(__file__).parents[2]
FILES = [ROOT / "params.yaml", *sorted((ROOT / "studies").rglob("params.yaml"))]
#: Folders, one of each depth: the pipeline's, a study's, that of a study's runs on other data.
FOLDERS = {len(file.relative_to(ROOT).parts): file.parent.relative_to(ROOT) for file in FILES}.values()

#: A study's own data may not be at hand.
DIGITS = {"data.source": "digits", "data.path": None, "data.channels": 1, "data.fit": "exact"}


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
def test_in_a_folder_called_studies(project, monkeypatch, folder):
    clone = "studies/unequal"
    here = project / clone / folder
    here.mkdir(parents=True)
    (project / clone / ".dvc").mkdir()
    monkeypatch.chdir(here)
    own = ROOT.joinpath(*folder.parts[:2], "stages/check_params.py")
    package = ".".join(folder.parts[:2]) if own.exists() else "unequal.comparison"
    main = importlib.import_module(f"{package}.stages.check_params".lstrip(".")).main
    edited(ROOT / folder / "params.yaml", {"colour": "red"} | DIGITS, here)
    result = CliRunner().invoke(main, [])
    assert (result.exit_code, result.output.count("\n")) == (1, 1)
    assert result.output.startswith("check_params: params.yaml:1: colour: unknown key; allowed here: seed, runtime, ")
    assert not Path("artifacts/params_checked.json").exists()
    edited(ROOT / folder / "params.yaml", DIGITS, here)
    assert CliRunner().invoke(main, []).exit_code == 0
    assert Path("artifacts/params_checked.json").exists()
    assert [path for path in project.rglob("work") if path != project / clone / "work"] == []
