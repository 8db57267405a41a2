"""Reports as one HTML page with embedded styles and pictures, and as Markdown tables that documents include.

The page is rendered by jinja2 from `page.html.j2` and `blocks.html.j2`: one line first, then pictures, tables and
conditions. It needs no other file and no script.
"""

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import DictLoader, Environment
from matplotlib.figure import Figure

from unequal.report.drawing import save
from unequal.runtime.files import write_bytes, write_csv
from unequal.runtime.workspace import Workspace

PAGE, BLOCKS = "page.html.j2", "blocks.html.j2"


class Table(NamedTuple):
    """Cells as text; the first cell of a row is its name. `references` are separate rows that give the scale."""

    heading: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    references: Sequence[Sequence[str]] = ()

    def markdown(self) -> str:
        """Markdown of the table, without heading and note; names of reference rows are in italics."""
        references = [(f"*{name}*", *cells) for name, *cells in self.references]
        rows = [self.columns, ["---"] * len(self.columns), *self.rows, *references]
        lines = [" | ".join(cell.replace("|", r"\|") for cell in row) for row in rows]
        return "".join(f"| {line} |\n" for line in lines)


class Drawing(NamedTuple):
    """A picture to draw: its name, its size in inches, and the heading and caption around it."""

    name: str
    size: tuple[float, float]
    draw: Callable[[Figure], None]
    heading: str
    caption: str


@dataclass(frozen=True)
class Report:
    """Contents of a page.

    Attributes:
        title, lead: heading, and the result in one sentence.
        facts: line with data, date, commit and similar facts.
        commands: commands that a reader may run next, one per line.
        overview: pictures at the top.
        tables: tables, after the pictures.
        conditions: conditions on which the figures depend, name → text.
        drawings: pictures, in order.
        rows: name → rows of a CSV file, for programs.
    """

    title: str
    lead: str
    tables: Sequence[Table]
    conditions: Mapping[str, str]
    drawings: Sequence[Drawing]
    rows: Mapping[str, Sequence[Mapping[str, Any]]]
    facts: str = ""
    commands: Sequence[str] = ()
    overview: Sequence[Drawing] = ()


def publish(run: Workspace, report: Report, folder: str = "results") -> None:
    """Write report.html, pictures, CSV files and the tables as Markdown into a folder, and log them."""
    write_bytes(run.output(f"{folder}/report.html"), render(report, run.output(f"{folder}/pictures")).encode())
    for name, rows in report.rows.items():
        write_csv(run.output(f"{folder}/{name}.csv"), rows)
    tables = run.output(f"{folder}/tables")
    for table in (*report.tables, Table("Conditions", ("condition", ""), list(report.conditions.items()))):
        write_bytes(tables / f"{anchor(table.heading)}.md", table.markdown().encode())
    run.parent_artifacts([f"{folder}/report.html", f"{folder}/pictures"])


def render(report: Report, folder: Path) -> str:
    """Draw the pictures as PNG files in a folder, and render the page with them."""
    for one in (*report.overview, *report.drawings):
        save(folder / f"{one.name}.png", one.size, one.draw)
    templates = {name: Path(__file__).with_name(name).read_text(encoding="utf-8") for name in (PAGE, BLOCKS)}
    environment = Environment(loader=DictLoader(templates), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    filters: dict[str, Callable[..., Any]] = {
        "anchor": anchor,
        "base64": lambda name: base64.b64encode((folder / f"{name}.png").read_bytes()).decode(),
        "unbroken": unbroken,
    }
    environment.filters.update(filters)
    return environment.get_template(PAGE).render(report=report)


def anchor(heading: str) -> str:
    """Name of a heading's place on the page, and of its file."""
    return re.sub(r"\W+", "-", heading.lower()).strip("-")


def unbroken(text: str) -> str:
    """Replace spaces between numbers and units, so that no line breaks there."""
    return text.replace(" %", "\u00a0%").replace(" ×", "\u00a0×").replace(" ± ", "\u00a0±\u00a0")
