"""The page of the study: every way's FID against the control's, by solver and spacing, and what fresh bases show."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from studies.few_steps.params import SOLVERS, WAY
from unequal.comparison.confirmation import CONTROL, FIRST, confirmed, standings
from unequal.comparison.figures import WIDTH
from unequal.comparison.judgement import Family, family
from unequal.comparison.results import ComparisonResults
from unequal.comparison.settings import Comparison
from unequal.comparison.tables import answer, confirmation_table, family_table
from unequal.pipeline.commit import commit_words
from unequal.pipeline.stage import Run, stage
from unequal.report.drawing import GOLD, INK, RED, SOFT, log_scale
from unequal.report.formatting import label, mean_and_sd, today
from unequal.report.page import Drawing, Report, Table, publish
from unequal.runtime.files import read_json
from unequal.settings.strict import StageSettings
from unequal.statistics.verdicts import Verdict

#: A colour a spacing.
COLOURS = {
    "uniform": SOFT,
    "quadratic": "#7a3a5d",
    "log_snr": INK,
    "edm": "#2a9d74",
    "profile": RED,
    "rescaled_profile": "#8a5bb5",
}
#: Title and caption of the picture.
CALLS = (
    "FID over calls of the network",
    "Geometric mean of FID over blocks, points single bases; both axes are logarithmic. Lower is better.",
)


@dataclass(frozen=True)
class Scores:
    """Scores of all ways with one number of calls.

    Attributes:
        calls: of the network, as asked for.
        found: block, fresh ones included → content of results/scores/calls_<calls>/block_<seed>.json.
        results: the blocks by which ways are judged.
    """

    calls: int
    found: Mapping[int, Mapping[str, Any]]
    results: ComparisonResults

    @classmethod
    def read(cls, folder: Path, calls: int, plan: Comparison) -> Self:
        """Read the scores of all blocks. Raises UserError where a file is missing."""
        blocks = (*plan.seeds, *plan.confirm.seeds)
        found = {block: read_json(folder / f"calls_{calls}/block_{block}.json") for block in blocks}
        ways = {way: {block: found[block]["ways"][way] for block in plan.seeds} for way in plan.arms.all}
        return cls(calls, found, ComparisonResults(plan, ways, {}))

    @property
    def family(self) -> Family:
        """Every way against the control with as many calls."""
        return family(self.results, "fid")

    @property
    def pairs(self) -> list[dict[str, Any]]:
        """Figures of the first-ranked way and of the control on each fresh base."""
        plan = self.results.plan
        first, _ = standings(self.results, plan.candidates, "fid")[0]
        return [
            {
                place: self.found[block]["ways"][way] | {"arm": way}
                for place, way in ((FIRST, first), (CONTROL, plan.repeated.control))
            }
            for block in plan.confirm.seeds
        ]

    @property
    def confirmed(self) -> dict[str, Verdict]:
        """Verdict of the fresh bases on what came first."""
        return confirmed(self.results, self.pairs)

    def tables(self) -> list[Table]:
        """Verdicts on all ways, and what fresh bases show."""
        tables = [family_table(self.family, self.results), confirmation_table(self.confirmed, self.results, self.pairs)]
        return [one._replace(heading=f"{self.calls} calls: {one.heading}") for one in tables]

    def rows(self) -> list[dict[str, Any]]:
        """A row a block and way."""
        return [
            {"calls": self.calls, "block": block, "way": way, **one["endpoints"], **one["scores"], **one["costs"]}
            for block, scored in self.found.items()
            for way, one in scored["ways"].items()
        ]


def fid_table(scores: Sequence[Scores]) -> Table:
    """FID of all ways with each number of calls."""
    rows = [
        (label(way), *(mean_and_sd(np.exp(one.results.logarithms("fid", [way])[0]).tolist()) for one in scores))
        for way in scores[0].results.plan.arms.all
    ]
    note = (
        "± is the standard deviation over blocks. Steps that snap to one timestep are taken once: scores.csv has the "
        "calls that were made."
    )
    return Table("FID", ("way", *(f"{one.calls} calls" for one in scores)), rows, note)


def over_calls(figure: Figure, scores: Sequence[Scores]) -> None:
    """A panel a solver, a line a spacing; dotted in each: the control."""
    plan, asked = scores[0].results.plan, [one.calls for one in scores]
    panels = dict(zip(SOLVERS, figure.subplots(1, len(SOLVERS), sharey=True), strict=True))
    for axes in panels.values():
        control = plan.repeated.control
        draw_way(axes, scores, control, color=GOLD, linestyle=":", label=f"{label(control)}, the control")
    for way in plan.arms.all:
        if (known := WAY.fullmatch(way)) and way != plan.repeated.arm:
            draw_way(panels[known[1]], scores, way, color=COLOURS[known[2]], label=known[2].replace("_", "-"))
    for solver, axes in panels.items():
        log_scale(axes, "{:g}")
        axes.set_xscale("log")
        axes.set_xticks(asked, [str(one) for one in asked], minor=False)
        axes.minorticks_off()
        axes.set_title(label(solver), loc="left", fontsize=10)
        axes.set_xlabel("calls of the network")
    # The last panel has all lines; a key outside covers none of them.
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    panels[SOLVERS[0]].set_ylabel("FID (lower is better)")


def draw_way(axes: Axes, scores: Sequence[Scores], way: str, **style: Any) -> None:
    """FID of a way over the calls that were made."""
    logs = np.array([one.results.logarithms("fid", [way])[0] for one in scores])
    made = [np.mean([each["costs"]["calls_made"] for each in one.results.trainings[way].values()]) for one in scores]
    axes.plot(made, np.exp(logs.mean(1)), linewidth=1.6, **style)
    axes.plot(made, np.exp(logs), "o", color=style["color"], markersize=2.6, alpha=0.5)


class Settings(StageSettings):
    comparison: Comparison
    calls: tuple[int, ...]


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write the study's page and its findings."""
    plan, folder = settings.comparison, run.input("results/scores")
    scores = [Scores.read(folder, calls, plan) for calls in settings.calls]
    conditions = scores[0].found[plan.seeds[0]]["conditions"]
    report = Report(
        title=plan.question,
        lead=" ".join(answer(one.family).replace("By", f"With {one.calls} calls, by", 1) for one in scores),
        facts=" · ".join([conditions["data"], f"{len(plan.seeds)} bases", today(), *commit_words()]),
        tables=[fid_table(scores), *(table for one in scores for table in one.tables())],
        conditions={key.replace("_", " "): str(value) for key, value in conditions.items()},
        drawings=[Drawing("calls", (1.2 * WIDTH, 4.7), partial(over_calls, scores=scores), *CALLS)],
        rows={"scores": [row for one in scores for row in one.rows()]},
    )
    publish(run, report)
    fresh = {one.calls: {"way": one.pairs[0][FIRST]["arm"]} | asdict(one.confirmed["fid"]) for one in scores}
    run.metrics(
        "results/findings.json", {"calls": {one.calls: one.family.document() for one in scores}, "confirmed": fresh}
    )
