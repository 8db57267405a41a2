"""Figures on the pages are those of the committed results."""

from pages import README, ROOT

from benchmarks.table import table

#: Characters of README.md at most: what a newcomer reads in one go.
README_CHARACTERS = 10_000


def test_readme_is_short():
    assert len(README.read_text(encoding="utf-8")) <= README_CHARACTERS


def test_the_page_on_performance_shows_the_recorded_benchmarks():
    page = (ROOT / "docs/performance.md").read_text(encoding="utf-8")
    assert table("cpu", ROOT / "benchmarks") in page, "run: python -m benchmarks --table"
