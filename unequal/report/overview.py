"""First screen of the pipeline's page: the recommended model, and the pictures that show why."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from unequal.evaluation.loss_profile import endpoints
from unequal.report.captions import FIRST_SCREEN
from unequal.report.comparisons import (
    FURTHER_TRAINING,
    HELD_OUT,
    fid_differences,
    loss_differences,
)
from unequal.report.drawing import (
    PALE,
    SOFT,
    colour,
    log_scale,
    picture_grid,
    place_labels,
    prefixed,
)
from unequal.report.forest import ForestRow, forest_plot, forest_size
from unequal.report.formatting import duration, label, plus_minus, signed, time_unit, with_prefix
from unequal.report.memorizing import SHOWN, grid_size, memorizing_rows
from unequal.report.page import Drawing, Table
from unequal.report.pipeline_tables import reference_rows
from unequal.report.results import RunResults, Variant
from unequal.report.statements import Difference


class Recommendation(NamedTuple):
    """A recommended model, and the sentence that says why."""

    model: str
    text: str


def control_of(found: RunResults) -> str:
    """Name of the common control of all variants: the base trained further, or the base if no model continues it."""
    return FURTHER_TRAINING.method if FURTHER_TRAINING.method in found.variants else "base"


def scored(found: RunResults) -> list[Variant]:
    """Variants that compete, the lowest FID first; models of single slots do not compete."""
    models = [one for name, one in found.variants.items() if not name.startswith("slot_")]
    return sorted(models, key=lambda one: one.fid)


def against_control(found: RunResults) -> dict[str, Difference]:
    """Variant → difference of its FID from the control's, the lowest first; a FID without a logarithm is left out."""
    control = control_of(found)
    names = [one.name for one in scored(found) if one.name != control]
    pairs = [(name, control) for name in names]
    differences = fid_differences(found.seed_fids, pairs)
    return {name: one for name, one in zip(names, differences, strict=True) if one is not None}


def recommend(found: RunResults, ready: bool, differences: Mapping[str, Difference]) -> Recommendation:
    """Name the model with the lowest FID if it is distinguishable from the control, else the control.

    Args:
        found: results of the run.
        ready: whether the base is good enough for comparisons.
        differences: variant → difference of its FID from the control's.
    """
    best, control = scored(found)[0].name, control_of(found)
    fids = {name: one.fid for name, one in found.variants.items()}
    if not ready:
        text = (
            "Give the base more images: it is not good enough to compare methods. Until it is, take "
            f"{place_of('base')}."
        )
        return Recommendation("base", text)
    difference = differences.get(best)
    if difference is not None and difference.distinguishable and difference.log_ratio < 0:
        text = (
            f"Take {place_of(best)}: its {found.fid_name} of {plus_minus(fids[best], None)} is "
            f"{signed(difference.percents()['change']).lstrip('−')} % below that of {label(control)}."
        )
        return Recommendation(best, f"{text} Each model was trained once; another training may change the order.")
    text = (
        f"Take {place_of(control)}, {found.fid_name} {plus_minus(fids[control], None)}: no method has a FID that is "
        "distinguishably lower"
    )
    nearest = "" if best == control or difference is None else f"; {label(best)} differs by {difference.text()}"
    return Recommendation(control, f"{text}{nearest}. Each model was trained once.")


def place_of(model: str) -> str:
    """Name of a model in text, and its folder."""
    return f"{label(model)} (artifacts/models/{model})"


def smoke_run(found: RunResults) -> Recommendation:
    """Recommendation of a smoke run, which says only that it is one; its commands use the base."""
    images, samples = with_prefix(found.variants["base"].images_seen), found.base["samples_per_seed"]
    text = (
        f"All stages ran, with tiny budgets: the base saw {images} images, and each FID is of {samples} samples. "
        "Nothing below says how good a model or a method is. It shows what the page of a full run holds."
    )
    return Recommendation("base", text)


def in_order(by_model: Mapping[str, Any], variants: Sequence[Variant]) -> dict[str, Any]:
    """Sort figures by model into the order of these variants; other models come last."""
    names = [one.name for one in variants if one.name in by_model]
    return {name: by_model[name] for name in dict.fromkeys([*names, *by_model])}


def overview(found: RunResults, model: str, differences: Mapping[str, Difference], data: np.ndarray) -> list[Drawing]:
    """Pictures of the first screen: samples, FID against cost, FID against the control.

    Args:
        found: results of the run.
        model: the recommended model.
        differences: variant → difference of its FID from the control's.
        data: training images, uint8 [n, C, H, W].
    """
    rows, distance = sample_rows(found, model, data)
    judged_rows = {name: one for name, one in differences.items() if one.interval is not None}
    control = label(control_of(found))
    heading, caption = FIRST_SCREEN["overview_samples"]
    drawings = [
        Drawing(
            "overview_samples",
            grid_size(len(rows)),
            partial(picture_grid, rows=rows),
            heading,
            f"{caption} {distance}",
        ),
        Drawing(
            "fid_cost",
            (10.5, 4.6),
            partial(fid_costs, found=found),
            *FIRST_SCREEN["fid_cost"],
        ),
    ]
    if judged_rows:
        rows_drawn = [forest_row(name, one) for name, one in judged_rows.items()]
        drawings.append(
            Drawing(
                "fid_changes",
                forest_size(len(rows_drawn)),
                partial(forest_plot, rows=rows_drawn, text=f"FID against {control}"),
                f"FID against {control}",
                f"Change of FID from that of {control}, with its 95 % interval, "
                "over sampling seeds; it does not cover another training. Models that saw fewer images are "
                "not at equal cost: see the picture above.",
            )
        )
    return drawings


def forest_row(name: str, difference: Difference) -> ForestRow:
    """Row of the forest plot for a difference."""
    percents = difference.percents()
    change, low, high = (percents[end] / 100 for end in ("change", "low", "high"))
    return ForestRow(label(name), change, low, high, "")


def sample_rows(found: RunResults, model: str, data: np.ndarray) -> tuple[dict[str, np.ndarray], str]:
    """Rows of the first picture, and a sentence on the distance of samples from training images."""
    names = [name for name in dict.fromkeys(["base", control_of(found)]) if name != model]
    further, distance = memorizing_rows(found.samples[model], data, found.real)
    return {label(name): found.samples[name][:SHOWN] for name in (*names, model)} | further, distance


def fid_costs(figure: Figure, found: RunResults) -> None:
    """Draw FID against time and against training FLOPs, with the Pareto front of each as a line."""
    variants = scored(found)
    seconds = [found.seconds(one.name) for one in variants]
    length, unit = time_unit(max(seconds))
    costs = {
        f"time of training ({unit})": [one / length for one in seconds],
        "training FLOPs": [float(one.training_flops) for one in variants],
    }
    panels = figure.subplots(1, len(costs), sharey=True)
    for axes, (text, values) in zip(panels, costs.items(), strict=True):
        cost_panel(axes, variants, values, text, found.references["real_against_real"]["fid"])
    panels[0].set_ylabel(f"{found.fid_name}, lower is better")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper left", ncols=2)
    # Names are placed in pixels, so both panels must have their final limits.
    for axes, values in zip(panels, costs.values(), strict=True):
        points = [(cost, one.fid, one.fid_sd or 0.0) for cost, one in zip(values, variants, strict=True)]
        place_labels(axes, points, [(label(one.name), colour(one.name)) for one in variants])


def cost_panel(axes: Axes, variants: Sequence[Variant], costs: Sequence[float], text: str, real: float) -> None:
    """Draw all variants with their spread over sampling seeds, the Pareto front, and `real`, the FID of real images."""
    front = pareto_front(costs, [one.fid for one in variants])
    best = [costs[i] for i in front], [variants[i].fid for i in front]
    axes.plot(*best, color=PALE, linewidth=6, zorder=0, label="none beats these in both")
    if real > 0:
        axes.axhline(real, color=SOFT, linewidth=1, linestyle=":", zorder=0, label="real images")
    for variant, cost in zip(variants, costs, strict=True):
        axes.errorbar(
            cost, variant.fid, yerr=variant.fid_sd, fmt="o", color=colour(variant.name), markersize=6, capsize=3
        )
    if max(one.fid for one in variants) > 4 * min(one.fid for one in variants):
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


def variants_table(found: RunResults, differences: Mapping[str, Difference]) -> Table:
    """Table of variants without slot models, the lowest FID first: changes from one control, and costs.

    Args:
        found: results of the run.
        differences: variant → difference of its FID from the control's, the lowest first.
    """
    control, compared = control_of(found), endpoints(found.schedule)

    def row(name: str) -> tuple[str, ...]:
        one, difference = found.variants[name], differences.get(name)
        losses = loss_differences(compared, found.errors, name, control) if name != control else {}
        changes = (losses.get(key) for key in HELD_OUT)
        return (
            label(name),
            plus_minus(one.fid, one.fid_sd),
            "–" if difference is None else difference.short(),
            *("–" if change is None else f"{signed(change.percents()['change'])} %" for change in changes),
            with_prefix(one.images_seen),
            duration(found.seconds(name)),
        )

    against = f"against {label(control)}"
    columns = ("variant", found.fid_name, f"FID {against}", *HELD_OUT.values(), "images seen", "time of training")
    ends = [(name, fid, *("",) * (len(columns) - 2)) for name, fid, *_ in reference_rows(found.references)]
    note = (
        f"Losses: held-out, change {against}. In brackets: 95 % interval. Images and time: of all trainings that "
        "lead to a variant."
    )
    return Table("Variants", columns, [row(one.name) for one in scored(found)], note, ends)
