from pathlib import Path

import pytest

from unequal.pipeline.workdirs import project_root, study, work_root


@pytest.mark.parametrize("copy", [".dvc/tmp/exps/standalone/tmpsda0st2i", ".dvc/tmp/exps/tmpvp4yyc0c"])
def test_in_a_copy_of_dvc_the_root_is_the_project_that_was_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copy: str
) -> None:
    (tmp_path / copy / ".dvc").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / copy)
    assert (project_root(), study()) == (tmp_path, None)
    assert work_root() == tmp_path / "work"


@pytest.mark.parametrize("project", ["project", "studies", "studies/clone"])
@pytest.mark.parametrize("copy", [".", ".dvc/tmp/exps/tmpvp4yyc0c"])
@pytest.mark.parametrize("name", ["mine", "mine/patches"])
def test_a_study_lies_below_the_root_whatever_that_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, project: str, copy: str, name: str
) -> None:
    root = tmp_path / project
    (root / ".dvc").mkdir(parents=True)
    (root / copy / ".dvc").mkdir(parents=True, exist_ok=True)
    (root / copy / "studies" / name).mkdir(parents=True)
    monkeypatch.chdir(root / copy / "studies" / name)
    assert (project_root(), study()) == (root, name)


@pytest.mark.parametrize("folder", [".", "dvc/tmp/exps/x", "studies/mine"])
def test_without_a_project_the_root_is_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(tmp_path / folder)
    assert (project_root(), study()) == (tmp_path / folder, None)
