"""The committed example of a run: `python -m unequal.report.example` takes it from results/ into docs/example/.

Every file in docs/example is taken anew from its place in results; to show another one, copy it there once. Documents
name a file between two markers, relative to the project's root, and what stands between them is replaced:

    <!-- table: docs/example/tables/models.md -->
    <!-- /table -->
"""

import re
import shutil
from pathlib import Path

from unequal.runtime.files import files_below

RESULTS, EXAMPLE, PAGE = Path("results"), Path("docs/example"), Path("docs/example.md")
PLACE = re.compile(r"(<!-- table: (\S+) -->\n).*?(<!-- /table -->)", re.DOTALL)


def included(text: str, root: Path) -> str:
    """Insert the current tables into a document's text. Raises OSError where a table's file is missing."""
    return PLACE.sub(lambda found: f"{found[1]}{(root / found[2]).read_text(encoding='utf-8')}{found[3]}", text)


def take_example() -> None:
    """Copy the example's files from the results, and write its page. Raises OSError where one is missing."""
    for file in files_below(EXAMPLE):
        shutil.copyfile(RESULTS / file.relative_to(EXAMPLE), file)
    PAGE.write_text(included(PAGE.read_text(encoding="utf-8"), Path()), encoding="utf-8")


if __name__ == "__main__":
    take_example()
