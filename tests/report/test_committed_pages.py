"""Pages in the repository: every row of a table has a cell a column."""

from pathlib import Path

import pytest
from graph import ROOT
from html_tables import is_uneven, uneven_tables

PAGES = sorted(ROOT.glob("results/report.html")) + sorted((ROOT / "studies").rglob("results/report.html"))


def test_a_row_too_short_is_seen() -> None:
    assert is_uneven("<table><tr><th>a</th><th>b</th></tr><tr><td>1</td></tr></table>")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parents[1].name)
def test_rows_have_a_cell_a_column(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.count("<table") > 0
    assert uneven_tables(text) == []
