"""First screen of the pipeline's page: the model to take in one line, and the pictures and the table that show why."""

import shlex
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from unequal.evaluation.loss_profile import endpoints
from unequal.report.captions import FIRST_SCREEN
from unequal.report.drawing import PALE, SOFT, colour, log_scale, picture_grid, place_labels, prefixed
from unequal.report.forest import ForestRow, forest_plot, forest_size
from unequal.report.formatting import duration, label, plus_minus, signed, time_unit, with_prefix
from unequal.report.memorizing import SHOWN, grid_size, memorizing_rows
from unequal.report.page import Drawing, Table
from unequal.report.results import RunResults
from unequal.report.tables import reference_rows

#: First line of a summary; engines print what follows it in the report's log.
HEAD = "Summary of the run"
#: Endpoint on held-out draws (`unequal.evaluation.loss_profile`) → its name in text.
HELD_OUT = {
    "loss_over_timesteps": "loss over timesteps",
    "loss_over_log_snr": "loss over log-SNR",
    "x0_loss_over_log_snr": "x0 error over log-SNR",
}


class Taken(NamedTuple):
    """The model to take, and the line that says so."""

    model: str
    text: str


def taken(results: RunResults) -> Taken:
    """The model of the lowest FID if its whole interval lies below the control's FID, else the control.

    A base that is nearer to noise than to real images, on the scale of ln FID, decides nothing.
    """
    ends, base = results.references, results.base.fid_mean
    noise, real = ends.noise_against_real.fid, ends.real_against_real.fid
    if min(base, noise, real) > 0 and base**2 > noise * real:
        scale = f"its {results.fid_name} {plus_minus(base, None)} is nearer to noise ({plus_minus(noise, None)})"
        return Taken("base", f"Train base longer: {scale} than to real images ({plus_minus(real, None)}).")
    best, control, differences = results.ranked[0], results.control, results.differences()
    lowest = differences.get(best)
    model = best if lowest is not None and lowest.is_lower else control
    score = results.scores[model]
    against = f" ({lowest.short()} against {label(control)})" if lowest is not None and model == best else ""
    if lowest is not None and model != best:
        against = f" ({label(best)} against it: {lowest.short()})"
    seconds = duration(results.seconds(model))
    cost = f"{with_prefix(score.training_flops)} training FLOPs, {seconds} of {results.processor} time"
    fid = f"{results.fid_name} {plus_minus(score.fid_mean, score.spread('fid'))}"
    return Taken(model, f"Take {label(model)} (artifacts/models/{model}): {fid}{against}; {cost}.")


def overview(results: RunResults, model: str) -> list[Drawing]:
    """Pictures of the first screen: samples, FID against cost, FID against the control."""
    others = [name for name in dict.fromkeys(["base", results.control]) if name != model]
    data = results.data
    further, distance = memorizing_rows(results.samples[model], data.train, data.holdout)
    rows = {label(name): results.samples[name][:SHOWN] for name in (*others, model)} | further
    heading, caption = FIRST_SCREEN["overview_samples"]
    caption += "" if distance is None else f" Their distance over that of held-out images: {distance:.2f}."
    drawings = [Drawing("overview_samples", grid_size(len(rows)), partial(picture_grid, rows=rows), heading, caption)]
    if len(results.ranked) > 1:
        drawings.append(
            Drawing("fid_cost", (10.5, 4.6), partial(fid_costs, results=results), *FIRST_SCREEN["fid_cost"])
        )
    intervals = [
        ForestRow(label(name), one.change, one.low, one.high)
        for name, one in results.differences().items()
        if one.low is not None and one.high is not None
    ]
    if intervals:
        text = f"FID against {label(results.control)}"
        draw = partial(forest_plot, rows=intervals, text=text)
        drawings.append(Drawing("fid_changes", forest_size(len(intervals)), draw, text, FIRST_SCREEN["fid_changes"][1]))
    return drawings


def fid_costs(figure: Figure, results: RunResults) -> None:
    """Draw FID against time and against training FLOPs, with the Pareto front of each as a line."""
    names = results.ranked
    seconds = [results.seconds(name) for name in names]
    length, unit = time_unit(max(seconds))
    costs = {
        f"{results.processor} time of training ({unit})": [one / length for one in seconds],
        "training FLOPs": [float(results.scores[name].training_flops) for name in names],
    }
    panels = figure.subplots(1, len(costs), sharey=True)
    for axes, (text, values) in zip(panels, costs.items(), strict=True):
        cost_panel(axes, results, values, text)
    panels[0].set_ylabel(f"{results.fid_name}, lower is better")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper left", ncols=2)
    # Names are placed in pixels, so both panels must have their final limits.
    scores = [results.scores[name] for name in names]
    for axes, values in zip(panels, costs.values(), strict=True):
        points = [(cost, one.fid_mean, one.spread("fid") or 0.0) for cost, one in zip(values, scores, strict=True)]
        place_labels(axes, points, [(label(name), colour(name)) for name in names])


def cost_panel(axes: Axes, results: RunResults, costs: Sequence[float], text: str) -> None:
    """Draw all models with their spread over sampling seeds, the Pareto front, and the FID of real images."""
    fids = [results.scores[name].fid_mean for name in results.ranked]
    front = pareto_front(costs, fids)
    best = [costs[i] for i in front], [fids[i] for i in front]
    axes.plot(*best, color=PALE, linewidth=6, zorder=0, label="none beats these in both")
    if (real := results.references.real_against_real.fid) > 0:
        axes.axhline(real, color=SOFT, linewidth=1, linestyle=":", zorder=0, label="real images")
    for name, cost, fid in zip(results.ranked, costs, fids, strict=True):
        error = results.scores[name].spread("fid")
        axes.errorbar(cost, fid, yerr=error, fmt="o", color=colour(name), markersize=6, capsize=3)
    if max(fids) > 4 * min(fids):
        log_scale(axes, "{:g}")
    axes.margins(x=0.16, y=0.14)
    axes.xaxis.set_major_formatter(FuncFormatter(prefixed))
    axes.set_xlabel(text)


def pareto_front(costs: Sequence[float], fids: Sequence[float]) -> list[int]:
    """Indices of the points that no other point beats in both cost and FID, by ascending cost."""
    front: list[int] = []
    for index in sorted(range(len(costs)), key=lambda i: (costs[i], fids[i])):
        if not front or fids[index] < fids[front[-1]]:
            front.append(index)
    return front


def held_out_losses(results: RunResults, model: str) -> dict[str, float]:
    """Endpoints of a model on held-out draws by name; empty: it was not profiled."""
    if model not in results.errors:
        return {}
    return {name: one.of(results.errors[model]["holdout"])[0] for name, one in endpoints(results.schedule).items()}


def models_table(results: RunResults) -> Table:
    """Table of models without slot models, the lowest FID first: changes from one control, and costs."""
    control, differences = results.control, results.differences()
    before = held_out_losses(results, control)

    def row(name: str) -> tuple[str, ...]:
        score, difference = results.scores[name], differences.get(name)
        losses = held_out_losses(results, name) if name != control else {}
        known = [100 * (losses[key] / before[key] - 1) if losses and before else np.nan for key in HELD_OUT]
        return (
            label(name),
            plus_minus(score.fid_mean, score.spread("fid")),
            "–" if difference is None else difference.short(),
            *("–" if np.isnan(change) else f"{signed(change)} %" for change in known),
            with_prefix(score.images_seen),
            with_prefix(score.training_flops),
            duration(results.seconds(name)),
        )

    columns = ["model", results.fid_name, f"FID against {label(control)}", *HELD_OUT.values()]
    columns += ["images seen", "training FLOPs", f"{results.processor} time"]
    ends = [(name, fid, *("",) * (len(columns) - 2)) for name, fid, *_ in reference_rows(results.references)]
    note = (
        "±: standard deviation over sampling seeds. In brackets: 95 % interval over them, which covers no other "
        f"training. Losses: held-out, change against {label(control)}. Costs: of all trainings that lead to a model."
    )
    return Table("Models", columns, [row(name) for name in results.ranked], note, ends)


def commands(model: str, place: Path) -> list[str]:
    """List the next commands for a model, to run in the checkout that contains the run's folder."""
    enter = [] if place == Path() else [f"cd {shlex.quote(str(place))}"]
    target = f"my-{model.replace('_', '-')}"
    return [*enter, f"unequal sample {model} --count 64 --grid", f"unequal export {model} {target}"]


def summary(lead: str, following: Sequence[str], place: Path) -> Iterator[str]:
    """Yield the lines of the summary of a run in a folder below the checkout."""
    yield HEAD
    yield f"  {lead}"
    yield f"  next:   open {place / 'results/report.html'}"
    yield from (f"          {command}" for command in following)
