"""The committed example is small, and documents hold its tables."""

import shutil
from pathlib import Path

import pytest
from graph import ROOT

from unequal.report.example import EXAMPLE, PAGE, included, take_example
from unequal.runtime.files import files_below

#: Largest number of files and bytes of a run in the repository.
FILES, BYTES = 15, 1_000_000
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "studies").rglob("*.md"))]
DOCUMENTS = [path for path in PAGES if "<!-- table: " in path.read_text(encoding="utf-8")]


def test_the_example_is_small() -> None:
    sizes = [path.stat().st_size for path in files_below(ROOT / EXAMPLE)]
    assert len(sizes) <= FILES
    assert sum(sizes) <= BYTES


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_documents_hold_their_tables(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    assert included(text, ROOT) == text


def test_the_example_is_taken_from_the_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / EXAMPLE, tmp_path / "results")
    (tmp_path / EXAMPLE / "tables").mkdir(parents=True)
    (tmp_path / EXAMPLE / "tables/a.md").touch()
    (tmp_path / "results/tables/a.md").write_text("| new\\1 |\n")
    PAGE.write_text(f"before\n<!-- table: {EXAMPLE}/tables/a.md -->\nold\n<!-- /table -->\nafter\n")
    take_example()
    assert [path.name for path in files_below(EXAMPLE)] == ["a.md"]
    assert PAGE.read_text() == f"before\n<!-- table: {EXAMPLE}/tables/a.md -->\n| new\\1 |\n<!-- /table -->\nafter\n"
