"""Reports as one HTML page with styles and pictures inside, and as Markdown tables that documents include.

The page is rendered by jinja2 from `page.html.j2` and `blocks.html.j2`: one sentence first, then statements, pictures,
tables and conditions. It needs no other file and no script.
"""

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import DictLoader, Environment
from matplotlib.figure import Figure

from unequal.files import write_bytes, write_csv
from unequal.report.drawing import save
from unequal.report.statements import Difference, Section, findings_document
from unequal.workspace import Workspace

PAGE, BLOCKS = "page.html.j2", "blocks.html.j2"
#: Pixels of a strip: a change and its interval next to a statement.
STRIP_WIDTH, STRIP_HEIGHT, STRIP_MARGIN = 260, 30, 8
#: ln 1.05: strips that span less would make noise look large.
LEAST_SPAN = 0.05


class Table(NamedTuple):
    """Cells as text, the first of a row its name; `references` are rows for scale, set off from the others."""

    heading: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    references: Sequence[Sequence[str]] = ()

    def markdown(self) -> str:
        """The table in Markdown, without heading and note; names of reference rows are in italics."""
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


class Picture(NamedTuple):
    """A PNG file with its heading and caption."""

    path: Path
    heading: str
    caption: str

    @property
    def base64(self) -> str:
        """The file's bytes as text."""
        return base64.b64encode(self.path.read_bytes()).decode()


@dataclass(frozen=True)
class Report:
    """Contents of a page.

    Attributes:
        title, lead: heading, and the result in one sentence.
        tables: after the pictures.
        conditions: what the figures depend on, name → text.
        drawings: pictures, in their order.
        rows: tables for programs, written as CSV files of these names.
        sections: statements, before all else.
        documents: Markdown for other documents, written to tables/<name>.md.
    """

    title: str
    lead: str
    tables: Sequence[Table]
    conditions: Mapping[str, str]
    drawings: Sequence[Drawing]
    rows: Mapping[str, Sequence[Mapping[str, Any]]]
    sections: Sequence[Section] = ()
    documents: Mapping[str, str] = field(default_factory=dict)


class Strip(NamedTuple):
    """A difference as marks along a strip, in pixels from the left; the control is in the middle."""

    point: float
    low: float | None
    high: float | None
    distinguishable: bool
    text: str
    width: int = STRIP_WIDTH
    height: int = STRIP_HEIGHT
    margin: int = STRIP_MARGIN


def publish(run: Workspace, report: Report, folder: str = "results") -> None:
    """Write report.html, pictures, CSV files and Markdown tables into a folder, and log them.

    Statements go to findings.json too, where the report has any.
    """
    pictures = run.output(f"{folder}/pictures")
    drawn = [
        Picture(save(pictures / f"{one.name}.png", one.size, one.draw), one.heading, one.caption)
        for one in report.drawings
    ]
    write_bytes(run.output(f"{folder}/report.html"), render(report, drawn).encode())
    for name, rows in report.rows.items():
        write_csv(run.output(f"{folder}/{name}.csv"), rows)
    if report.documents:
        tables = run.output(f"{folder}/tables")
        for name, text in report.documents.items():
            write_bytes(tables / f"{name}.md", text.encode())
    if report.sections:
        run.metrics(f"{folder}/findings.json", findings_document(report.sections))
    run.parent_artifacts([f"{folder}/report.html", f"{folder}/pictures"])


def render(report: Report, pictures: Sequence[Picture]) -> str:
    """The page, with pictures from their PNG files."""
    differences = [one.drawn for section in report.sections for one in section.statements if one.drawn]
    span = strip_span(differences)
    templates = {name: Path(__file__).with_name(name).read_text(encoding="utf-8") for name in (PAGE, BLOCKS)}
    environment = Environment(loader=DictLoader(templates), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    filters: dict[str, Callable[..., Any]] = {
        "anchor": lambda heading: re.sub(r"\W+", "-", heading.lower()).strip("-"),
        "strip": lambda difference: strip_of(difference, span),
        "unbroken": unbroken,
    }
    environment.filters.update(filters)
    return environment.get_template(PAGE).render(report=report, pictures=pictures)


def strip_span(differences: Sequence[Difference]) -> float:
    """The largest |ln ratio| among differences and their intervals: the scale that all strips of a page share."""
    ends = [abs(end) for one in differences for end in (one.log_ratio, *(one.interval or ()))]
    return max([LEAST_SPAN, *ends])


def strip_of(difference: Difference, span: float) -> Strip:
    """Marks of a difference on a strip from −span to span."""

    def pixels(log_ratio: float) -> float:
        return STRIP_WIDTH / 2 + (STRIP_WIDTH / 2 - STRIP_MARGIN) * log_ratio / span

    low, high = (None, None) if difference.interval is None else map(pixels, difference.interval)
    return Strip(pixels(difference.log_ratio), low, high, difference.distinguishable, difference.text())


def unbroken(text: str) -> str:
    """Text whose numbers stay on the line of their units."""
    return text.replace(" %", "\u00a0%").replace(" ×", "\u00a0×").replace(" ± ", "\u00a0±\u00a0")
