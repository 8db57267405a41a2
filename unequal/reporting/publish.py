"""A report as files: one page, its pictures and tables, its findings and what became of the claims."""

from unequal.files import write_bytes, write_csv
from unequal.reporting.figures import save
from unequal.reporting.page import Picture, Report, render
from unequal.reporting.statements import findings_document
from unequal.reporting.verdicts import verdict_document
from unequal.workspace.protocol import Workspace


def publish(run: Workspace, report: Report, folder: str = "results", claims: str = "claims") -> None:
    """Write report.html, pictures and a CSV file a table of rows, and log them.

    Statements go to findings.json, verdicts to verdicts.json, where the report has any.

    Args:
        run: where they are written.
        report: what they say.
        folder: that they lie in.
        claims: what the counts of verdicts are called where runs are compared, as in `claims_held`.
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
    if report.verdicts:
        document = verdict_document(report.verdicts)
        headline = {f"{claims}_{word}": count for word, count in document["counts"].items()}
        run.metrics(f"{folder}/verdicts.json", document, headline)
    run.parent_artifacts([f"{folder}/report.html", f"{folder}/pictures"])
