"""Reports as one HTML page with styles and pictures inside."""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from unequal.files import write_bytes, write_csv
from unequal.report.drawing import save
from unequal.report.statements import Difference, Section, Statement, findings_document
from unequal.workspace import Workspace

#: Marks a row that is a scale for the others and not one of them.
REFERENCE = "reference"
PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
:root { --ink: #1d2730; --soft: #5d6b77; --line: #e1e5e8; --paper: #ffffff; --back: #f6f5f1; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1040px; margin: 0 auto; padding: 2rem 1rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .4rem; }
h2 { font-size: 1.3rem; margin: 2.6rem 0 .8rem; }
h3 { font-size: 1.05rem; margin: 0 0 .6rem; }
p { margin: .5rem 0; max-width: 46rem; }
.soft { color: var(--soft); font-size: .9rem; }
.card, figure { background: var(--paper); border: 1px solid var(--line); border-radius: 8px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th { text-align: left; font-weight: 600; color: var(--soft); font-size: .82rem; vertical-align: bottom; }
th, td { padding: .6rem .8rem; border-bottom: 1px solid var(--line); vertical-align: top; }
tr:last-child td { border-bottom: 0; }
.figures td + td, .figures th + th { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.figures th + th { white-space: normal; }
.figures .reference td { color: var(--soft); font-style: italic; }
.statements { list-style: none; margin: 0; padding: 0; }
.statements li { display: flex; gap: 1.6rem; align-items: center; padding: .7rem 1rem;
  border-bottom: 1px solid var(--line); }
.statements li:last-child { border-bottom: 0; }
.statements p { flex: 1 1 24rem; margin: 0; }
.statements svg { flex: none; width: 260px; height: 30px; }
figure { margin: 1.2rem 0; padding: 1rem; }
figure img { display: block; width: 100%; min-width: 640px; height: auto; }
figcaption { margin-top: .7rem; color: var(--soft); font-size: .9rem; max-width: 52rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1.2rem; margin: 0; padding: 1rem;
  font-size: .92rem; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
@media (max-width: 640px) {
  .statements li { display: block; }
  dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin-bottom: .5rem; }
}
</style>
</head>
<body>
<main>
<h1>$title</h1>
<p>$lead</p>

$sections

$tables

<h2>Conditions</h2>
<dl class="card">
$conditions
</dl>

<h2>Pictures</h2>
$pictures
</main>
</body>
</html>
""")
#: Below statements with strips.
DRAWN = (
    "Drawn beside: the difference of FID with its resolution, on one log scale, to the left of the line where it is "
    "lower than the control's; hollow where the two are not told apart."
)
#: Pixels.
WIDTH, HEIGHT, MARGIN = 260, 30, 8
INK, SOFT, LINE = "#1b3a57", "#8a959f", "#c9ced3"
#: ln 1.05: strips that show less would make noise look large.
LEAST = 0.05


class Table(NamedTuple):
    """Cells as text, the first of a row its name; `references` are rows that the others are held against."""

    heading: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    references: Sequence[Sequence[str]] = ()


class Drawing(NamedTuple):
    """A picture that is yet to be drawn: its name, its size in inches, and what stands above and below it."""

    name: str
    size: tuple[float, float]
    draw: Callable[[Figure], None]
    heading: str
    caption: str


@dataclass(frozen=True)
class Report:
    """What a page says.

    Attributes:
        title, lead: heading, and what was compared, in a sentence.
        tables: below what is said.
        conditions: what the figures mean nothing without, name → text.
        drawings: pictures, in their order.
        rows: what lies beside the page as CSV files, by their names.
        sections: of statements, before all else.
    """

    title: str
    lead: str
    tables: Sequence[Table]
    conditions: Mapping[str, str]
    drawings: Sequence[Drawing]
    rows: Mapping[str, Sequence[Mapping[str, Any]]]
    sections: Sequence[Section] = ()


class Picture(NamedTuple):
    """A PNG file with what stands above and below it."""

    path: Path
    heading: str
    caption: str


def render(report: Report, pictures: Sequence[Picture]) -> str:
    """The page, with its drawings as they lie in PNG files."""
    differences = [one.drawn for section in report.sections for one in section.statements]
    conditions = (f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in report.conditions.items())
    return PAGE.substitute(
        title=escape(report.title),
        lead=escape(report.lead),
        sections="\n\n".join(section_of(one, widest(differences)) for one in report.sections),
        tables="\n".join(map(table_of, report.tables)),
        conditions="\n".join(conditions),
        pictures="\n".join(map(figure_of, pictures)),
    )


def section_of(section: Section, width: float) -> str:
    """Statements below their heading, with the differences among them as strips of this width."""
    note = f'\n<p class="soft">{DRAWN}</p>' if any(one.drawn for one in section.statements) else ""
    lead = f'\n<p class="soft">{unbroken(escape(section.lead))}</p>' if section.lead else ""
    items = "\n".join(item(one, width) for one in section.statements)
    return f'<h2>{escape(section.heading)}</h2>{lead}\n<ul class="card statements">\n{items}\n</ul>{note}'


def item(statement: Statement, width: float) -> str:
    """A statement, and its difference as a strip of this width where it has one."""
    drawn = "" if statement.drawn is None else strip(statement.drawn, width)
    subject = f"<strong>{escape(statement.subject)}</strong> " if statement.subject else ""
    return f"<li><p>{subject}{unbroken(escape(statement.text))}</p>{drawn}</li>"


def unbroken(text: str) -> str:
    """Text whose numbers stay on the line of their units."""
    return text.replace(" %", "&nbsp;%").replace(" ×", "&nbsp;×").replace(" ± ", "&nbsp;±&nbsp;")


def table_of(table: Table) -> str:
    """A table below its heading."""
    head = "".join(f"<th>{escape(column)}</th>" for column in table.columns)
    rows = [*map(row, table.rows), *(row(cells, REFERENCE) for cells in table.references)]
    note = f'\n<p class="soft">{escape(table.note)}</p>' if table.note else ""
    return (
        f'<h2>{escape(table.heading)}</h2>\n<div class="card scroll">\n<table class="figures">\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{chr(10).join(rows)}\n</tbody>\n</table>\n</div>{note}"
    )


def row(cells: Sequence[str], kind: str = "") -> str:
    """A row of a table."""
    return f'<tr class="{kind}">{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}</tr>'


def figure_of(picture: Picture) -> str:
    """A picture inside the page, with heading and caption."""
    content = base64.b64encode(picture.path.read_bytes()).decode()
    image = f'<img alt="{escape(picture.heading)}" src="data:image/png;base64,{content}">'
    return (
        f'<figure id="{escape(picture.path.stem)}"><h3>{escape(picture.heading)}</h3>'
        f'<div class="scroll">{image}</div><figcaption>{escape(picture.caption)}</figcaption></figure>'
    )


def widest(differences: Sequence[Difference | None]) -> float:
    """The largest |ln ratio| that strips side by side must show, so that all have one scale."""
    ends = [abs(end) for one in differences if one for end in (one.log_ratio, *(one.interval or ()))]
    return max([LEAST, *ends])


def strip(difference: Difference, width: float) -> str:
    """An SVG of ln(method/control) between −width and width, to one scale of pixels.

    The line in the middle is the control. The bar is the resolution of the run, filled points are told apart in it.
    """
    point, middle = place(difference.log_ratio, width), HEIGHT / 2
    ink, fill = (INK, INK) if difference.told_apart else (SOFT, "#ffffff")
    bar = ""
    if difference.interval is not None:
        low, high = (place(end, width) for end in difference.interval)
        bar = f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{middle}" y2="{middle}" stroke="{ink}" stroke-width="3"/>'
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{difference.text()}">'
        f'<line x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{middle}" y2="{middle}" stroke="#e1e5e8"/>'
        f'<line x1="{WIDTH / 2}" x2="{WIDTH / 2}" y1="2" y2="{HEIGHT - 2}" stroke="{LINE}" stroke-width="2"/>'
        f'{bar}<circle cx="{point:.1f}" cy="{middle}" r="4.5" fill="{fill}" stroke="{ink}" stroke-width="2"/></svg>'
    )


def place(log_ratio: float, width: float) -> float:
    """Where a logarithm lies on a strip, in pixels from the left."""
    return WIDTH / 2 + (WIDTH / 2 - MARGIN) * log_ratio / width


def publish(run: Workspace, report: Report, folder: str = "results") -> None:
    """Write report.html, pictures and a CSV file a table of rows, and log them.

    Statements go to findings.json, where the report has any.

    Args:
        run: where they are written.
        report: what they say.
        folder: that they lie in.
    """
    pictures = run.output(f"{folder}/pictures")
    drawn = [
        Picture(save(pictures / f"{one.name}.png", one.size, one.draw), one.heading, one.caption)
        for one in report.drawings
    ]
    write_bytes(run.output(f"{folder}/report.html"), render(report, drawn).encode())
    for name, rows in report.rows.items():
        write_csv(run.output(f"{folder}/{name}.csv"), rows)
    if report.sections:
        run.metrics(f"{folder}/findings.json", findings_document(report.sections))
    run.parent_artifacts([f"{folder}/report.html", f"{folder}/pictures"])
