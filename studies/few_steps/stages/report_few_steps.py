"""Tables, picture and findings of the study: all ways against the control, and the best ones on fresh bases."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from studies.few_steps.findings import CONTROL, FIRST, Family, Found, family, first, read_again, read_found
from studies.few_steps.findings import confirmed as on_fresh_bases
from studies.few_steps.params import Sweep
from unequal.comparison.figures import WIDTH
from unequal.comparison.tables import FINDING_COLUMNS, cells
from unequal.pipeline.stage import Run, stage
from unequal.report.drawing import GOLD, INK, RED, SOFT, log_scale
from unequal.report.formatting import label, mean_and_sd, percent
from unequal.report.page import Drawing, Report, Table, publish
from unequal.settings.strict import StageSettings
from unequal.statistics.verdicts import Verdict

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
    "word for all of the table together, but for the last row: the control's own samples from other noise, where "
    "nothing should be found."
)


def family_table(family: Family, found: Found) -> Table:
    """All ways with one number of calls against the control."""
    sweep = found.sweep
    rows = [(label(way), *cells(finding, sweep.delta)) for way, finding in family.found.items()]
    checked = (label(sweep.repeated), *cells(family.repeated, sweep.delta))
    heading = f"{family.calls} calls, against {label(sweep.control.name)}"
    return Table(heading, ("way", *FINDING_COLUMNS), rows, f"δ = {percent(sweep.delta)}. {NOTE}", [checked])


def scores_table(found: Found) -> Table:
    """FID of all ways."""
    numbers = found.sweep.calls
    rows = [(label(way), *(verdict(found, calls, way) for calls in numbers)) for way in found.sweep.ways]
    note = (
        "± is the standard deviation over blocks. In brackets: the calls that were made, where steps that snapped to "
        "one timestep have left fewer than were asked for."
    )
    return Table("FID", ("way", *(f"{calls} calls" for calls in numbers)), rows, note)


def verdict(found: Found, calls: int, way: str) -> str:
    """FID, and the calls where they are fewer."""
    made = {one["calls"] for one in found.of(calls, way)}
    fewer = f" ({' or '.join(map(str, sorted(made)))})" if made != {calls} else ""
    return mean_and_sd(found.fids(calls, way)) + fewer


def confirmation_table(confirmed: Mapping[int, Verdict], found: Found, again: Sequence[Mapping[str, Any]]) -> Table:
    """A row a number of calls."""
    rows = [
        (f"{calls} calls: {label(again[0]['calls'][str(calls)][FIRST]['way'])}", *cells(one, found.sweep.delta))
        for calls, one in confirmed.items()
    ]
    note = (
        f"What came first with each number of calls was held against {label(found.sweep.control.name)} once more, on "
        f"{len(again)} bases that had no say in that; the error of a difference is by the scatter of all ways of the "
        "study, or of these pairs where that is larger. Each row is judged by itself."
    )
    return Table("What came first, on fresh bases", ("way", *FINDING_COLUMNS), rows, note)


def score_rows(found: Found) -> list[dict[str, Any]]:
    """A row a block, number of calls and way."""
    return [
        {"calls": calls, "block": block, "way": way}
        | {name: value for name, value in one.items() if name not in ("calls", "timesteps")}
        | {"calls_made": one["calls"], "timesteps": " ".join(map(str, one["timesteps"]))}
        for calls, own in found.scores.items()
        for block, scored in own.items()
        for way, one in scored["ways"].items()
    ]


def confirmation_rows(found: Found, again: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row a block, number of calls and place."""
    return [
        {"calls": calls, "block": block["block"], "place": place, "way": pair["way"], "fid": pair["fid"]}
        for block in again
        for calls in found.sweep.calls
        for place, pair in ((place, block["calls"][str(calls)][place]) for place in (FIRST, CONTROL))
    ]


def over_calls(figure: Figure, found: Found) -> None:
    """A panel a solver, a line a spacing; dotted in each: the control."""
    sweep = found.sweep
    panels = np.atleast_1d(figure.subplots(1, len(sweep.solvers), sharey=True))
    for axes, solver in zip(panels, sweep.solvers, strict=True):
        drawn: Mapping[str, dict[str, Any]] = {
            sweep.control.name: {"color": GOLD, "linestyle": ":", "label": f"{label(sweep.control.name)}, the control"}
        } | {f"{solver}_{one}": {"color": COLOURS[one], "label": one.replace("_", "-")} for one in sweep.spacings}
        for way, style in drawn.items():
            fids = np.array([found.fids(calls, way) for calls in sweep.calls])
            calls = [np.mean([one["calls"] for one in found.of(asked, way)]) for asked in sweep.calls]
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
    """Keys of params.yaml that this stage reads."""

    sweep: Sweep


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write the study's page and its findings."""
    found = read_found(run.input("results/scores"), settings.sweep)
    again = read_again(run.input("results/again"), run.input("results/first.json"), settings.sweep)
    judged = [family(found, calls) for calls in settings.sweep.calls]
    confirmed = on_fresh_bases(found, again)
    calls = Drawing(
        "calls",
        (1.2 * WIDTH, 4.7),
        partial(over_calls, found=found),
        "FID over calls of the network",
        "Geometric mean of FID over blocks, points single bases; both axes are logarithmic. Lower is better.",
    )
    bases = f"{len(found.sweep.seeds)} bases, {len(found.sweep.ways)} ways of taking steps."
    report = Report(
        title=settings.sweep.question,
        lead=bases,
        tables=[
            scores_table(found),
            confirmation_table(confirmed, found, again),
            *(family_table(one, found) for one in judged),
        ],
        conditions={key.replace("_", " "): str(value) for key, value in found.any["conditions"].items()},
        drawings=[calls],
        rows={"scores": score_rows(found), "confirmation": confirmation_rows(found, again)},
    )
    publish(run, report)
    verdicts = {
        str(one.calls): {way: asdict(finding) for way, finding in one.found.items()} | {"A/A": asdict(one.repeated)}
        for one in judged
    }
    fresh = {str(calls): {"way": first(found, calls)} | asdict(one) for calls, one in confirmed.items()}
    changes = {f"change_{one.calls}_{way}": finding.change for one in judged for way, finding in one.found.items()}
    document = {"delta": settings.sweep.delta, "calls": verdicts, "confirmed": fresh}
    run.metrics("results/findings.json", document, headline=changes)


if __name__ == "__main__":
    main()
