"""The page of ideas has every figure and table of the three papers, and says of each study whether it has been run."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/ideas.md").read_text(encoding="utf-8")
#: Figures, with their parts, and tables.
FIGURES = {
    1: ["Fig. 1a", "Table 1", "Fig. 1b, c", "Fig. 1d to g", "Fig. 2", "Fig. 3a", "Fig. 3b", "Fig. 4"],
    3: [f"Fig. {number}" for number in range(1, 9)],
}
FIGURES[3] += [f"Table {number}" for number in ("I", "II", "III", "IV", "V", "VI")]
ROWS = [row for row in PAGE.splitlines() if re.match(r"\|[^|]*\|[^|]*\|[^|]*\|[^|]*\|$", row) and "---" not in row]


@pytest.mark.parametrize("paper", FIGURES)
def test_every_figure_and_table_of_a_paper_has_a_row(paper: int) -> None:
    section = PAGE.partition(f"### [{paper}] ")[2].partition("\n### ")[0]
    names = [row.split("|")[1] for row in section.splitlines() if row in ROWS]
    missing = [
        one for one in FIGURES[paper] if not any(re.search(rf"\b{re.escape(one)}(?![\dIVX])", name) for name in names)
    ]
    assert not missing


def test_a_study_is_called_not_run_as_long_as_its_page_has_no_answer() -> None:
    linked = [(row, study) for row in ROWS for study in re.findall(r"\.\./studies/(\w+)/README\.md", row)]
    assert len({study for _, study in linked}) > 8
    for row, study in linked:
        page = (ROOT / f"studies/{study}/README.md").read_text(encoding="utf-8")
        if "**Answer.** None yet" in page:
            assert "not run" in row, f"{study} has not been run: {row}"
        else:  # a page of several comparisons may lack some
            assert "not run" not in row or "not run" in page.lower(), f"{study} has been run: {row}"
