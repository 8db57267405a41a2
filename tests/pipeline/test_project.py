from pathlib import Path

import pytest

from unequal.pipeline.project import project_root, study, work_root


@pytest.mark.parametrize("copy", [".dvc/tmp/exps/standalone/tmpsda0st2i", ".dvc/tmp/exps/tmpvp4yyc0c"])
def test_in_a_copy_of_dvc_the_root_is_the_project_that_was_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copy: str
) -> None:
    (tmp_path / copy).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / copy)
    assert project_root() == tmp_path
    assert work_root() == tmp_path / "work"


@pytest.mark.parametrize("copy", [".", ".dvc/tmp/exps/tmpvp4yyc0c"])
def test_a_study_lies_two_folders_below_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copy: str) -> None:
    (tmp_path / copy / "studies" / "mine").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / copy / "studies" / "mine")
    assert (project_root(), study()) == (tmp_path, "mine")


@pytest.mark.parametrize("folder", [".", "dvc/tmp/exps/x", ".dvc/tmp/other", ".dvc/tmp/exps"])
def test_elsewhere_the_root_is_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(tmp_path / folder)
    assert (project_root(), study()) == (tmp_path / folder, None)
