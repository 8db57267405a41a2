"""A study's page, from the endpoints of its trainings alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Self

from unequal.artifacts.figures import Figures, ReferenceFigures, read_figures
from unequal.comparison.figures import along_trainings, drawings
from unequal.comparison.judgement import Family, families
from unequal.comparison.pilot_results import PilotFigures, pilot_table, tries_table
from unequal.comparison.results import Found, read_found, told
from unequal.comparison.settings import Comparison, Effects, Subject
from unequal.comparison.tables import (
    arms_table,
    curve_rows,
    family_table,
    first_sentence,
    markdown,
    named,
    speed_table,
    training_rows,
)
from unequal.files import write_bytes
from unequal.pipeline.stage import Run
from unequal.report.page import Drawing, Report, Table, publish
from unequal.settings.strict import StageSettings
from unequal.statistics.verdicts import Verdict


class ExtractorFigures(Figures):
    """results/metrics/extractor.json."""

    holdout_accuracy: float | None = None


class PageSettings(StageSettings):
    """Keys of params.yaml by which a study is judged."""

    subject: Subject
    blocks: Comparison
    effects: Effects


@dataclass(frozen=True)
class Study:
    """All that a page is made of.

    Attributes:
        subject: what people call the images.
        found: the trainings.
        judged: what is said of them, an endpoint each.
        pilot: what the pilot has told.
        accuracy: of the classifier whose features FID compares, on held-out images; None: by no classifier.
        real: scores of real images beside real ones, and of which `sets`: what FID has room for.
    """

    subject: str
    found: Found
    judged: Sequence[Family]
    pilot: Mapping[str, Any]
    accuracy: float | None
    real: Mapping[str, Any]

    @classmethod
    def read(cls, place: Callable[[str], Path], settings: PageSettings) -> Self:
        """From what lies among the results, each file at its place.

        Raises UserError where one is missing or lacks what is read of it.
        """
        found = read_found(place("results/endpoints"), settings.blocks)
        pilot = read_figures(place("results/pilot.json"), PilotFigures)
        extractor = read_figures(place("results/metrics/extractor.json"), ExtractorFigures)
        judged = families(found, pilot, settings.effects)
        ends = read_figures(place("results/fid/reference.json"), ReferenceFigures)
        real = ends["real_against_real"] | {"sets": ends["real_sets"]}
        return cls(settings.subject, found, judged, pilot, extractor["holdout_accuracy"], real)

    @property
    def conditions(self) -> dict[str, str]:
        """What the figures mean nothing without, name → text."""
        told = {key.replace("_", " "): str(value) for key, value in self.found.any["conditions"].items()}
        classifier = {} if self.accuracy is None else {"classifier's held-out accuracy": f"{self.accuracy:.3f}"}
        return told | classifier


def write_page(
    run: Run,
    study: Study,
    tables: Sequence[Table] = (),
    pictures: Sequence[Drawing] = (),
    rows: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    confirmed: Mapping[str, Verdict] | None = None,
) -> None:
    """Write the page, the findings and what a README says of them.

    Args:
        run: the stage, whose outputs they are.
        study: what was found.
        tables, pictures: of the study's own, behind those that all studies have.
        rows: name → rows of a table of the study's own that is written as a file.
        confirmed: what fresh blocks say of what came first, by endpoint, beside what the study says.
    """
    found, judged, speed = study.found, study.judged, study.found.blocks.speed
    first = first_sentence(found, study.subject, study.real)
    incomplete = f" Not judged: {told(found.missing)}." if found.missing else ""
    report = Report(
        title=found.blocks.question,
        lead=first + incomplete,
        tables=[
            *(family_table(one, found) for one in judged),
            *([speed_table(found, speed.baseline, one) for one in speed.by] if speed else []),
            arms_table(found, study.real),
            *tables,
            pilot_table(study.pilot),
            tries_table(study.pilot),
        ],
        conditions=study.conditions,
        drawings=[*drawings(judged, found), *([along_trainings(found, speed.by)] if speed else []), *pictures],
        rows={"trainings": training_rows(found), "curves": curve_rows(found)} | dict(rows or {}),
    )
    publish(run, report)
    write_bytes(run.output("results/findings.md"), markdown(judged, first).encode())
    words = {one.endpoint: one.document() for one in judged}
    fresh = {} if confirmed is None else {"confirmed": {name: asdict(one) for name, one in confirmed.items()}}
    run.metrics("results/findings.json", {"first": first} | conditions(study) | {"endpoints": words} | fresh)


def conditions(study: Study) -> dict[str, Any]:
    """What the words hold for."""
    found = study.found
    control = found.trainings[found.blocks.repeated.control].values()
    return {
        "data": named(study.subject, found.any["conditions"]["data"]),
        "parameters": found.any["costs"]["parameters"],
        "images": fmean(one["costs"]["images"] for one in control),
        "blocks": list(found.complete),
        "incomplete": {str(block): why for block, why in found.missing.items()},
    }
