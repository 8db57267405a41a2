"""Page of a comparison, made from the figures of its trainings alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, Self

from unequal.comparison.confirmation import confirmed, read_pairs
from unequal.comparison.figures import along_trainings, drawings, quality_against_cost, samples
from unequal.comparison.groups import compare_groups, group_rows, group_table
from unequal.comparison.judgement import Family, families
from unequal.comparison.pilot import WORK
from unequal.comparison.pilot_results import PilotFigures, pilot_table, tries_table
from unequal.comparison.ranking import Ranking
from unequal.comparison.results import ComparisonResults, read_results
from unequal.comparison.searches import read_searches, search_rows, search_tables
from unequal.comparison.settings import Comparison
from unequal.comparison.tables import (
    answer,
    confirmation_rows,
    confirmation_table,
    costs_table,
    curve_rows,
    family_table,
    first_sentence,
    named,
    scores_table,
    speed_table,
    training_rows,
)
from unequal.diffusion.schedule import noise_schedule
from unequal.pipeline.commit import commit_words
from unequal.pipeline.stage import Run
from unequal.report.figures import ReferenceFigures, read_figures
from unequal.report.formatting import duration, today
from unequal.report.page import Drawing, Report, Table, publish
from unequal.runtime.files import read_json, write_csv
from unequal.settings.recipe import Recipe
from unequal.settings.schedule import Schedule
from unequal.settings.strict import StageSettings
from unequal.statistics.verdicts import Verdict


class ReportSettings(StageSettings):
    """Keys of params.yaml that say how a comparison is judged and shown."""

    comparison: Comparison
    schedule: Schedule
    recipes: dict[str, Recipe]


@dataclass(frozen=True)
class Extras:
    """Tables, pictures and rows of a page.

    Attributes:
        tables, drawings: in their order.
        rows: name → rows of a CSV file.
    """

    tables: Sequence[Table] = ()
    drawings: Sequence[Drawing] = ()
    rows: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)

    def __add__(self, other: "Extras") -> "Extras":
        """Concatenate the contents of both."""
        return Extras([*self.tables, *other.tables], [*self.drawings, *other.drawings], {**self.rows, **other.rows})


@dataclass(frozen=True)
class Judged:
    """Contents of a page before they are shown.

    Attributes:
        results: the trainings.
        families: judged comparisons, one per endpoint.
        pilot: the pilot's judgement.
        accuracy: held-out accuracy of the classifier whose features FID compares; None: no classifier.
        real: scores of real images against real ones, the least FID to expect, and `sets`, which images these are.
        pairs: figures of the best variant and its control in fresh blocks.
    """

    results: ComparisonResults
    families: Sequence[Family]
    pilot: Mapping[str, Any]
    accuracy: float | None
    real: Mapping[str, Any]
    pairs: Sequence[Mapping[str, Any]]

    @classmethod
    def read(cls, place: Callable[[str], Path], comparison: Comparison) -> Self:
        """Read the results, each file at its place. Raises UserError where one is missing or lacks a figure."""
        results = read_results(place("results/endpoints"), comparison)
        pilot = read_figures(place("results/pilot.json"), PilotFigures)
        accuracy = read_json(place("results/metrics/extractor.json")).get("holdout_accuracy")
        ends = read_figures(place("results/fid/reference.json"), ReferenceFigures)
        real = ends["real_against_real"] | {"sets": ends["real_sets"]}
        pairs = read_pairs(place("results/confirm"), comparison.confirm.seeds)
        return cls(results, families(results), pilot, accuracy, real, pairs)

    @property
    def confirmed(self) -> dict[str, Verdict]:
        """Endpoint → verdict of fresh blocks; empty where nothing was confirmed."""
        return confirmed(self.results, self.pairs) if self.pairs else {}

    @property
    def conditions(self) -> dict[str, str]:
        """Conditions of the figures, name → text."""
        shared = {key.replace("_", " "): str(value) for key, value in self.results.any_training["conditions"].items()}
        classifier = {} if self.accuracy is None else {"classifier's held-out accuracy": f"{self.accuracy:.3f}"}
        return shared | classifier

    def further(self, settings: ReportSettings, trainings: Path) -> Extras:
        """Further contents of the page: speed, a ranking, groups of timesteps, searches, a confirmation."""
        plan, results, extras = self.results.plan, self.results, Extras()
        if (speed := plan.speed) is not None:
            extras += Extras(
                [speed_table(results, speed.baseline, one) for one in speed.by], [along_trainings(results, speed.by)]
            )
        if plan.control is not None and not (plan.arms.continued or plan.arms.heads):
            schedule = noise_schedule(settings.schedule)
            ranking = Ranking(self.families, results, settings.recipes, schedule, trainings)
            extras += Extras([ranking.table()], [ranking.drawing()])
        if plan.repeated.control in plan.arms.continued and (groups := compare_groups(results, trainings)):
            extras += Extras([group_table(groups, plan.repeated.control)], [], {"groups": group_rows(groups)})
        if searches := read_searches(plan, trainings):
            extras += Extras(search_tables(searches), [], {"searches": search_rows(searches)})
        if self.pairs:
            extras += Extras(
                [confirmation_table(self.confirmed, results, self.pairs)],
                [],
                {"confirmation": confirmation_rows(self.confirmed, self.pairs)},
            )
        return extras


def write_report(run: Run, settings: ReportSettings, own: Callable[[Judged], Extras] | None = None) -> None:
    """Write the page and the verdicts.

    Args:
        run: the stage; the page and the verdicts are its outputs.
        settings: the comparison's settings.
        own: function that makes a study's own tables, pictures and rows, which follow those of every comparison.
    """
    judged = Judged.read(run.input, settings.comparison)
    results, verdicts = judged.results, judged.families
    pictures = [samples(results, run.input("artifacts/samples")), *quality_against_cost(results)]
    extras = judged.further(settings, run.input("results/trainings"))
    extras += own(judged) if own else Extras()
    first = first_sentence(results, judged.real)
    judgements = [family_table(one, results) for one in verdicts]
    drawn = drawings(verdicts, results)
    rows = {"trainings": training_rows(results), "curves": curve_rows(results)} | dict(extras.rows)
    report = Report(
        title=results.plan.question,
        lead=answer(verdicts[0]),
        facts=facts(results, first),
        tables=[
            *judgements,
            scores_table(results, judged.real),
            costs_table(results),
            *extras.tables,
            pilot_table(judged.pilot),
            tries_table(judged.pilot),
        ],
        conditions=judged.conditions,
        overview=[*pictures, drawn[0]],
        drawings=[*drawn[1:], *extras.drawings],
        rows={},
        documents={one.endpoint: table.markdown() for one, table in zip(verdicts, judgements, strict=True)},
    )
    publish(run, report)
    folder = run.output("results/rows")
    for name, content in rows.items():
        write_csv(folder / f"{name}.csv", content)
    fresh = {"confirmed": {name: asdict(one) for name, one in judged.confirmed.items()}} if judged.pairs else {}
    endpoints = {"endpoints": {one.endpoint: one.document() for one in verdicts}}
    run.metrics("results/findings.json", {"first": first} | conditions(results) | endpoints | fresh)


def facts(results: ComparisonResults, first: str) -> str:
    """Line of facts: data, time, device, date and commit."""
    trainings = [one for blocks in (results.bases, *results.trainings.values()) for one in blocks.values()]
    training, measuring = (duration(sum(one["costs"][f"{work}_seconds"] for one in trainings)) for work in WORK)
    took = f"{training} of training on {results.any_training['conditions']['device']}, {measuring} of measuring"
    return " · ".join([first, took, today(), *commit_words()])


def conditions(results: ComparisonResults) -> dict[str, Any]:
    """Conditions under which the verdicts hold."""
    control = results.trainings[results.plan.repeated.control].values()
    return {
        "data": named(results.plan.subject, results.any_training["conditions"]["data"]),
        "parameters": results.any_training["costs"]["parameters"],
        "images": fmean(one["costs"]["images"] for one in control),
        "blocks": list(results.plan.seeds),
    }
