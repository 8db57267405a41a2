"""Tables in documents are those of their files."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from graph import ROOT

from unequal.report.include import included, main

PAGE = "before\n<!-- table: a.md -->\nold\n<!-- /table -->\nafter <!-- table: a.md -->\n<!-- /table -->\n"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "studies").rglob("*.md"))]
DOCUMENTS = [path for path in PAGES if "<!-- table: " in path.read_text(encoding="utf-8")]


def test_what_stands_between_markers_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "page.md").write_text(PAGE)
    (tmp_path / "a.md").write_text("| new\\1 |\n")
    assert CliRunner().invoke(main, ["--check", "page.md"]).exit_code == 1
    assert (tmp_path / "page.md").read_text() == PAGE
    assert CliRunner().invoke(main, ["page.md"]).exit_code == 0
    assert (tmp_path / "page.md").read_text().count("-->\n| new\\1 |\n<!-- /table -->") == 2
    assert CliRunner().invoke(main, ["--check", "page.md"]).exit_code == 0


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_documents_hold_their_tables(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    assert included(text, ROOT) == text
