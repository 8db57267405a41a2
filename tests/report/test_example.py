"""The committed example is that of the run in dvc.lock, and is taken from no other."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from graph import ROOT

from unequal.report.example import EXAMPLE, LISTING, LOCK, PAGE, main, shown_files, stale
from unequal.runtime.files import files_below, read_json
from unequal.settings.strict import read_yaml

#: Largest number of files and bytes of a run in the repository.
FILES, BYTES = 15, 1_000_000


def test_the_example_is_of_the_recorded_run() -> None:
    files, lock = read_json(ROOT / EXAMPLE / LISTING), read_yaml(ROOT / LOCK)
    assert stale(ROOT / EXAMPLE, shown_files(ROOT), files, lock) == [], "run: python -m unequal.report.example"


def test_the_example_is_small() -> None:
    sizes = [path.stat().st_size for path in files_below(ROOT / EXAMPLE)]
    assert len(sizes) <= FILES
    assert sum(sizes) <= BYTES


@pytest.mark.parametrize("changed", ["fid.csv", "tables/fid.md"])
def test_results_of_another_run_are_refused(changed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (EXAMPLE, LOCK, PAGE):
        (shutil.copytree if path == EXAMPLE else shutil.copy)(ROOT / path, (tmp_path / path).absolute())
    shutil.copytree(ROOT / EXAMPLE, tmp_path / "results")
    (tmp_path / "results" / LISTING).unlink()
    (tmp_path / "results" / changed).write_text("another run\n")
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main)
    assert result.exit_code == 1
    assert changed in result.output
    assert stale(EXAMPLE, shown_files(), read_json(EXAMPLE / LISTING), read_yaml(LOCK)) == []
