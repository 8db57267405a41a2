"""Figures on the pages are those of the committed results."""

import re
from pathlib import Path

from pages import README, ROOT

from benchmarks.table import table
from unequal.files import read_json

#: Characters of README.md at most: what a newcomer reads in one go.
README_CHARACTERS = 10_000


def test_readme_is_short():
    assert len(README.read_text(encoding="utf-8")) <= README_CHARACTERS


def test_the_page_on_performance_shows_the_recorded_benchmarks():
    page = (ROOT / "docs/performance.md").read_text(encoding="utf-8")
    assert table("cpu", ROOT / "results/benchmarks") in page, "run: python -m benchmarks.table"


def test_pages_say_how_long_the_recorded_first_run_took():
    first = read_json(ROOT / "results/benchmarks/first_run.json")
    seconds = first["seconds"]
    minutes = round(seconds["all"] / 60)
    assert f"It took {minutes} minutes on two cores" in README.read_text(encoding="utf-8")
    names = {"stages' starts": "starts", "stages' work": "work", "stages' ends": "the rest"}
    parts = ", ".join(
        f"{names.get(part, part)} {100 * one / seconds['all']:.0f} %" for part, one in seconds.items() if part != "all"
    )
    page = " ".join((ROOT / "docs/performance.md").read_text(encoding="utf-8").split())
    assert f"it took {minutes} minutes for {first['stages']} stages: {parts}" in page
    assert first["cores"] == 2


def test_pictures_are_few():
    assert len(re.findall(r"!\[", README.read_text(encoding="utf-8"))) == 1
    assert Path(ROOT / "results/pictures/loss_profile.png").is_file()
