"""The page of the study: every way's FID against the control's, by solver and spacing, and what fresh bases show."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from matplotlib.figure import Figure
from pydantic import PositiveFloat, PositiveInt

from studies.few_steps.params import Sweep
from unequal.artifacts.figures import Figures, read_figures
from unequal.comparison.confirmation import once_more
from unequal.comparison.figures import WIDTH
from unequal.comparison.tables import FINDING_COLUMNS, verdict_cells
from unequal.pipeline.stage import Run, stage
from unequal.report.drawing import GOLD, INK, RED, SOFT, log_scale
from unequal.report.formatting import label, mean_and_sd, percent
from unequal.report.page import Drawing, Report, Table, publish
from unequal.settings.strict import StageSettings
from unequal.statistics.estimates import BlockModel
from unequal.statistics.verdicts import Verdict, judge

#: A colour a spacing, a panel a solver.
COLOURS = {
    "uniform": SOFT,
    "quadratic": "#7a3a5d",
    "log_snr": INK,
    "edm": "#2a9d74",
    "profile": RED,
    "rescaled_profile": "#8a5bb5",
}
NOTE = (
    "Changes are of FID's geometric mean over blocks; less is better. Intervals are for one comparison alone, p and "
    "verdict for all of the table together, but for the last row: the control's own samples from other noise, where "
    "nothing should be found."
)
#: Title and caption of the picture.
CALLS = (
    "FID over calls of the network",
    "Geometric mean of FID over blocks, points single bases; both axes are logarithmic. Lower is better.",
)


class WayFigures(Figures):
    """A way's scores in a block."""

    fid: PositiveFloat
    calls: PositiveInt
    timesteps: list[int]


class BlockFigures(Figures):
    """results/scores/calls_<calls>/block_<seed>.json."""

    ways: dict[str, WayFigures]
    conditions: dict[str, Any]


@dataclass(frozen=True)
class Scores:
    """Scores of all ways: (number of calls, block) → what its file holds."""

    sweep: Sweep
    found: Mapping[tuple[int, int], Mapping[str, Any]]

    @classmethod
    def read(cls, folder: Path, sweep: Sweep) -> Self:
        """Read the scores of all blocks. Raises UserError where a file is missing or lacks a figure."""
        keys = [(calls, block) for calls in sweep.calls for block in sweep.blocks]
        files = {key: folder / "calls_{}/block_{}.json".format(*key) for key in keys}
        return cls(sweep, {key: read_figures(file, BlockFigures) for key, file in files.items()})

    def of(self, calls: int, way: str) -> list[Mapping[str, Any]]:
        """A way's figures in each block by which it is judged."""
        return [self.found[calls, block]["ways"][way] for block in self.sweep.judged]

    def fids(self, calls: int, ways: Sequence[str], blocks: Sequence[int]) -> np.ndarray:
        """FID of ways in blocks, [ways, blocks]."""
        return np.array([[self.found[calls, block]["ways"][way]["fid"] for block in blocks] for way in ways])

    def model(self, calls: int) -> BlockModel:
        """ln FID of all ways, the control's second samples among them."""
        ways = (*self.sweep.ways, self.sweep.repeated)
        return BlockModel(ways, np.log(self.fids(calls, ways, self.sweep.judged)))

    def family(self, calls: int) -> dict[str, Verdict]:
        """Every way's verdict against the control with as many calls; last the control's second samples, by itself."""
        model, control, delta = self.model(calls), self.sweep.control.name, self.sweep.delta
        verdicts = judge([model.contrast(way, control) for way in self.sweep.compared], delta)
        return dict(
            zip(
                (*self.sweep.compared, self.sweep.repeated),
                [*verdicts, *judge([model.contrast(self.sweep.repeated, control)], delta)],
                strict=True,
            )
        )

    def first(self, calls: int) -> str:
        """The way of the lowest FID, in the geometric mean over blocks."""
        ways = self.sweep.compared
        return ways[int(np.log(self.fids(calls, ways, self.sweep.judged)).mean(1).argmin())]

    def confirmed(self, calls: int) -> Verdict:
        """Verdict of the fresh blocks on what came first."""
        pairs = np.log(self.fids(calls, (self.first(calls), self.sweep.control.name), self.sweep.fresh))
        (verdict,) = judge([once_more(self.model(calls), pairs.T)], self.sweep.delta)
        return verdict

    def cell(self, calls: int, way: str) -> str:
        """FID as text, with the calls where they are fewer than asked for."""
        made = {one["calls"] for one in self.of(calls, way)}
        fewer = f" ({' or '.join(map(str, sorted(made)))})" if made != {calls} else ""
        return mean_and_sd([one["fid"] for one in self.of(calls, way)]) + fewer

    def rows(self) -> list[dict[str, Any]]:
        """A row a block, number of calls and way."""
        return [
            {"calls": calls, "block": block, "way": way}
            | {name: value for name, value in one.items() if name not in ("calls", "timesteps")}
            | {"calls_made": one["calls"], "timesteps": " ".join(map(str, one["timesteps"]))}
            for (calls, block), scored in self.found.items()
            for way, one in scored["ways"].items()
        ]


def tables(scores: Scores) -> list[Table]:
    """FID of all ways, what fresh bases show, and the verdicts for each number of calls."""
    sweep = scores.sweep
    control, columns = label(sweep.control.name), ("way", *FINDING_COLUMNS)
    fids = [(label(way), *(scores.cell(calls, way) for calls in sweep.calls)) for way in sweep.ways]
    of_fids = (
        "± is the standard deviation over blocks. In brackets: the calls that were made, where steps that snapped to "
        "one timestep have left fewer than were asked for."
    )
    fresh = [
        (f"{calls} calls: {label(scores.first(calls))}", *verdict_cells(scores.confirmed(calls), sweep.delta))
        for calls in sweep.calls
    ]
    of_fresh = (
        f"What came first with each number of calls was held against {control} once more, on {len(sweep.fresh)} bases "
        "that had no say in that; the error of a difference is by the scatter of all ways of the study, or of these "
        "pairs where that is larger. Each row is judged by itself."
    )
    found = [
        Table("FID", ("way", *(f"{calls} calls" for calls in sweep.calls)), fids, of_fids),
        Table("What came first, on fresh bases", columns, fresh, of_fresh),
    ]
    for calls in sweep.calls:
        *rows, again = [(label(way), *verdict_cells(one, sweep.delta)) for way, one in scores.family(calls).items()]
        note = f"δ = {percent(sweep.delta)}. {NOTE}"
        found.append(Table(f"{calls} calls, against {control}", columns, rows, note, [again]))
    return found


def over_calls(figure: Figure, scores: Scores) -> None:
    """A panel a solver, a line a spacing; dotted in each: the control."""
    sweep = scores.sweep
    panels = np.atleast_1d(figure.subplots(1, len(sweep.solvers), sharey=True))
    for axes, solver in zip(panels, sweep.solvers, strict=True):
        drawn: Mapping[str, dict[str, Any]] = {
            sweep.control.name: {"color": GOLD, "linestyle": ":", "label": f"{label(sweep.control.name)}, the control"}
        } | {f"{solver}_{one}": {"color": COLOURS[one], "label": one.replace("_", "-")} for one in sweep.spacings}
        for way, style in drawn.items():
            fids = np.array([scores.fids(calls, [way], sweep.judged)[0] for calls in sweep.calls])
            calls = [np.mean([one["calls"] for one in scores.of(asked, way)]) for asked in sweep.calls]
            axes.plot(calls, np.exp(np.log(fids).mean(1)), linewidth=1.6, **style)
            axes.plot(calls, fids, "o", color=style["color"], markersize=2.6, alpha=0.5)
        log_scale(axes, "{:g}")
        axes.set_xscale("log")
        axes.set_xticks(sweep.calls, [str(one) for one in sweep.calls], minor=False)
        axes.minorticks_off()
        axes.set_title(label(solver), loc="left", fontsize=10)
        axes.set_xlabel("calls of the network")
    # The last panel has all lines; a key outside covers none of them.
    figure.legend(*panels[-1].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    panels[0].set_ylabel("FID (lower is better)")


class Settings(StageSettings):
    sweep: Sweep


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write the study's page and its findings."""
    sweep = settings.sweep
    scores = Scores.read(run.input("results/scores"), sweep)
    families = {calls: scores.family(calls) for calls in sweep.calls}
    conditions = scores.found[sweep.calls[0], sweep.judged[0]]["conditions"]
    report = Report(
        title=sweep.question,
        lead=f"{len(sweep.judged)} bases, {len(sweep.ways)} ways of taking steps.",
        tables=tables(scores),
        conditions={key.replace("_", " "): str(value) for key, value in conditions.items()},
        drawings=[Drawing("calls", (1.2 * WIDTH, 4.7), partial(over_calls, scores=scores), *CALLS)],
        rows={"scores": scores.rows()},
    )
    publish(run, report)
    verdicts = {str(calls): {way: asdict(one) for way, one in family.items()} for calls, family in families.items()}
    fresh = {str(calls): {"way": scores.first(calls)} | asdict(scores.confirmed(calls)) for calls in sweep.calls}
    run.metrics(
        "results/findings.json",
        {"delta": sweep.delta, "calls": verdicts, "confirmed": fresh},
        headline={f"change_{calls}_{way}": families[calls][way].change for calls in families for way in sweep.compared},
    )
