"""A report as files: one page, its pictures and tables, and its findings."""

from unequal.files import write_bytes, write_csv
from unequal.report.figures import save
from unequal.report.page import Picture, Report, render
from unequal.report.statements import findings_document
from unequal.workspace.protocol import Workspace


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
