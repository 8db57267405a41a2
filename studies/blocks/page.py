"""A study's page, from the endpoints of its trainings alone."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from studies.blocks.figures import along_trainings, drawings
from studies.blocks.findings import Found, told
from studies.blocks.judgement import families
from studies.blocks.pilot_findings import PilotFigures
from studies.blocks.tables import arms_table, family_table, first_sentence, markdown, speed_table, training_rows
from unequal.artifacts.figures import read_figures
from unequal.files import write_bytes
from unequal.pipeline.stage import Run
from unequal.reporting.page import Drawing, Report, Table
from unequal.reporting.publish import publish


def write_page(
    run: Run,
    found: Found,
    pilot: Path,
    tables: Sequence[Table] = (),
    pictures: Sequence[Drawing] = (),
    rows: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
) -> None:
    """Write the page, the findings and what a README says of them.

    Args:
        run: the stage, whose outputs they are.
        found: the trainings.
        pilot: the file of what the pilot has told.
        tables, pictures: of the study's own, behind those that all studies have.
        rows: name → rows of a table of the study's own that is written as a file.
    """
    judged, speed = families(found, read_figures(pilot, PilotFigures)), found.blocks.speed
    first = first_sentence(found)
    incomplete = f" Not judged: {told(found.missing)}." if found.missing else ""
    report = Report(
        title=found.blocks.question,
        lead=first + incomplete,
        tables=[
            *(family_table(one, found) for one in judged),
            *([speed_table(found, speed.baseline)] if speed else []),
            arms_table(found),
            *tables,
        ],
        conditions={key.replace("_", " "): str(value) for key, value in found.any["conditions"].items()},
        drawings=[*drawings(judged, found), *([along_trainings(found)] if speed else []), *pictures],
        rows={"trainings": training_rows(found)} | dict(rows or {}),
    )
    publish(run, report)
    write_bytes(run.output("results/findings.md"), markdown(judged, first).encode())
    words = {one.endpoint: one.document() for one in judged}
    run.metrics("results/findings.json", {"first": first} | conditions(found) | {"endpoints": words})


def conditions(found: Found) -> dict[str, Any]:
    """What the words hold for."""
    control = found.trainings[found.blocks.repeated.control].values()
    return {
        "data": found.any["conditions"]["data"],
        "parameters": found.any["costs"]["parameters"],
        "images": fmean(one["costs"]["images"] for one in control),
        "blocks": list(found.complete),
        "incomplete": {str(block): why for block, why in found.missing.items()},
    }
