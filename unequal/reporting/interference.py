"""What training on some timesteps does to the losses of the others: verdicts, tables and a picture."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from unequal.files import rounded
from unequal.measures.loss_profile import weighted_change
from unequal.reporting import overview
from unequal.reporting.figures import INK, RED, SOFT
from unequal.reporting.page import Table
from unequal.reporting.tables import changes, interference_rows, label
from unequal.reporting.trained_on import Estimate, Series, Summary, TrainedOn, attention, mean_change, summarise
from unequal.reporting.verdicts import SEVERAL, Evidence, Verdict, decide, tally

#: Steps over which changes are told in tables and pictures.
STEPS = 100
#: Sampler → the end of the range that it draws more often, and the other one.
ENDS = {"near_noise": ("near the noise", "near the data"), "near_data": ("near the data", "near the noise")}
ONE_TRAINING = "standard errors over the draws of the profile; one training seed"
#: Picture → heading and caption.
CAPTIONS = {
    **{name: overview.CAPTIONS[name] for name in ("loss_spaces", "slots", "samplers")},
    "interference_summary": (
        "Interference in one figure",
        f"Mean relative change of the slots' training losses in {STEPS} steps, ± standard error of paired draws: of "
        "slots drawn more often than uniformly, of those drawn less often, and of all. Scale linear below 1 %.",
    ),
    "loss_changes": (
        "Where retraining lowers the loss, and where it raises it",
        "Training loss after training on, as a multiple of the base's, on the same images and noise; bands: ± 1 "
        "paired standard error.",
    ),
}


def caption(picture: str) -> tuple[str, str]:
    """Heading and caption of a picture; a matrix of interference has the name of its recipe."""
    recipe = picture.removeprefix("interference_")
    matrix = (f"Interference of slots: recipe {label(recipe)}", overview.CAPTIONS["interference"][1])
    return CAPTIONS.get(picture, matrix)


def verdicts(found: TrainedOn) -> list[Verdict]:
    """Verdicts on learning rates and samplers."""
    rates = [rates_matter(found)] if len(found.slot_recipes) > 1 else []
    tilted = [name for name, kind in found.kinds.items() if kind in ENDS]
    stratified = [name for name, kind in found.kinds.items() if kind == "stratified"]
    return [
        *(retraining_trades(found, name) for name in tilted),
        *(all_slots_improve(found, name) for name in stratified),
        *(neglected_lag(found, name) for name in tilted),
        *rates,
    ]


def retraining_trades(found: TrainedOn, name: str) -> Verdict:
    """Paper 1, Fig. 1 d to g: what is trained on falls, what is not rises."""
    summary = summarise(found.series(name), found.base, found.slots)
    here, there = ENDS[found.kinds[name]]
    favoured, neglected = required(summary.favoured), required(summary.neglected)
    return Verdict(
        f"{name}_trades",
        1,
        f"Training on with more timesteps {here} lowers the loss there and raises it {there}",
        decide([Evidence(-favoured.value, favoured.stderr), Evidence(neglected.value, neglected.stderr)]),
        {"favoured_percent": 100 * favoured.value, "neglected_percent": 100 * neglected.value},
        f"slots that are drawn more often than uniformly {favoured.percent}, the others {neglected.percent}, "
        f"of the base's loss on average, after {summary.training.steps} steps",
        f"both mean changes of the slots' training losses against 2 paired standard errors; {SEVERAL}; {ONE_TRAINING}",
    )


def neglected_lag(found: TrainedOn, name: str) -> Verdict:
    """Whether neglected slots end worse than they would have by uniform training of the same length."""
    series, (here, there) = found.series(name), ENDS[found.kinds[name]]
    control = found.losses[found.control]["train"]
    lag = required(mean_change(series, control, found.slots, attention(series, found.slots) < 0))
    return Verdict(
        f"{name}_neglects",
        None,
        f"More timesteps {here} leave the loss {there} above that after uniform training for as long",
        decide([Evidence(*lag)]),
        {"neglected_percent": 100 * lag.value},
        f"slots that are drawn less often than uniformly {lag.percent} of their loss after {label(found.control)}",
        f"mean difference of the slots' training losses against 2 paired standard errors; {ONE_TRAINING}",
    )


def all_slots_improve(found: TrainedOn, name: str) -> Verdict:
    """Paper 1's conclusion: losses of all scales in every batch fall together."""
    rows = changes(0, found.base, found.losses[name]["train"], found.slots)
    evidence = [Evidence(-one.change, one.stderr) for one in rows]
    shown = (f"{one.slot}: {Estimate(one.change, one.stderr).percent}" for one in rows)
    return Verdict(
        f"{name}_lowers_all",
        1,
        "Batches that draw evenly from all slots lower the losses of all scales together",
        decide(evidence),
        tally(evidence) | {f"slot_{one.slot}_percent": 100 * one.change for one in rows},
        f"change of the base's loss, slot by slot: {', '.join(shown)}",
        f"change of each slot's training loss against 2 paired standard errors; {SEVERAL}; {ONE_TRAINING}",
    )


def rates_matter(found: TrainedOn) -> Verdict:
    """Whether a step harms the other slots the more, the higher the learning rate."""
    series = [found.series(name) for name in found.slot_recipes]
    evidence = [Evidence(*growth(low, high, found)) for low, high in pairwise(series)]
    summaries = [summarise(one, found.base, found.slots) for one in series]
    means = [required(one.neglected).over(one.training.steps / STEPS) for one in summaries]
    shown = (f"lr {one.training.lr:g}: {mean.percent}" for one, mean in zip(series, means, strict=True))
    return Verdict(
        "harm_grows_with_rate",
        None,
        "A step inside one slot harms the other slots the more, the higher the learning rate",
        decide(evidence),
        tally(evidence) | {f"{one.name}_percent": 100 * mean.value for one, mean in zip(series, means, strict=True)},
        f"mean change of the other slots' losses in {STEPS} steps: {', '.join(shown)}",
        "change per step of neighbouring learning rates, on the same slots and draws, against 2 paired standard "
        f"errors; {SEVERAL}; {ONE_TRAINING}",
    )


def growth(low: Series, high: Series, found: TrainedOn) -> tuple[float, float]:
    """By how much the neglected slots' mean change per step differs between two series, and its standard error."""
    parts = []
    for series, sign in ((high, 1), (low, -1)):
        chosen = attention(series, found.slots) < 0
        parts.append(sign * chosen / chosen.sum() / series.training.steps)
    return weighted_change(found.base, [*high.losses, *low.losses], found.slots, np.concatenate(parts))


def required(estimate: Estimate | None) -> Estimate:
    """An estimate of slots that there must be: tilted samplers and single slots favour some and neglect others."""
    if estimate is None:
        raise ValueError("a series that neither favours nor neglects a slot")
    return estimate


def summary_table(summaries: Sequence[Summary]) -> Table:
    """What every way of training did on average to the slots that it favoured and to those that it neglected."""
    means = ("favoured slots", "neglected slots", "all slots")
    rates = (f"neglected, in {STEPS} steps", "neglected, in 1000 images", "lost for each % gained")
    columns = ("trained on", "learning rate", "steps", *means, *rates)
    return Table("Interference in one figure", columns, list(map(summary_cells, summaries)), SUMMARY_NOTE)


SUMMARY_NOTE = (
    "Mean relative change of the slots' summed training losses, ± standard error over the draws that all models share "
    "(changes of one slot by several models go together, and are not taken for independent). Favoured slots were drawn "
    "more often than uniformly, neglected ones less often: of training inside single slots, the diagonal and all else "
    "of the matrix."
)


def summary_cells(summary: Summary) -> tuple[str, ...]:
    """A row of the table."""
    training, neglected = summary.training, summary.neglected
    parts = [summary.favoured, neglected, summary.every]
    parts += [
        neglected and neglected.over(training.steps / STEPS),
        neglected and neglected.over(training.images / 1000),
    ]
    cells = ["–" if one is None else one.percent for one in parts]
    price = price_of(summary)
    return (
        label(summary.name),
        f"{training.lr:g}",
        str(training.steps),
        *cells,
        "–" if price is None else f"{price:.2g} %",
    )


def price_of(summary: Summary) -> float | None:
    """What neglected slots lose, on average, for what favoured ones gain; None where nothing is gained."""
    favoured, neglected = summary.favoured, summary.neglected
    return None if favoured is None or neglected is None or favoured.value >= 0 else -neglected.value / favoured.value


def summary_rows(summaries: Sequence[Summary]) -> list[dict[str, Any]]:
    """The same as rows of a CSV, in percent; what is unknown is left empty."""
    rows = []
    for one in summaries:
        row: dict[str, Any] = {"trained_on": one.name} | one.training._asdict()
        for name, estimate in (("favoured", one.favoured), ("neglected", one.neglected), ("all", one.every)):
            value, stderr = ("", "") if estimate is None else (rounded(100 * part) for part in estimate)
            row |= {f"{name}_change_percent": value, f"{name}_stderr_percent": stderr}
        per_step = one.neglected and one.neglected.over(one.training.steps)
        per_image = one.neglected and one.neglected.over(one.training.images)
        for unit, estimate in (("step", per_step), ("image", per_image)):
            value, stderr = ("", "") if estimate is None else (rounded(100 * part) for part in estimate)
            row |= {f"neglected_percent_a_{unit}": value, f"neglected_stderr_a_{unit}": stderr}
        rows.append(row)
    return rows


def matrix_rows(found: TrainedOn) -> list[dict[str, Any]]:
    """All matrices of interference as rows of a CSV."""
    return [
        {"recipe": recipe} | row
        for recipe in found.slot_recipes
        for row in interference_rows({split: found.changes(recipe, split) for split in ("train", "holdout")})
    ]


def summary_figure(figure: Figure, summaries: Sequence[Summary]) -> None:
    """Change in STEPS steps of favoured and of neglected slots, a row a way of training."""
    axes = figure.subplots()
    axes.axvline(0, color=INK, linewidth=1)
    kinds = {"favoured": (INK, "o", "favoured slots"), "neglected": (RED, "s", "neglected slots")}
    for kind, (ink, marker, text) in {**kinds, "every": (SOFT, "D", "all slots")}.items():
        drawn = [
            (row, one.training.steps, getattr(one, kind)) for row, one in enumerate(summaries) if getattr(one, kind)
        ]
        rows, values = [row for row, *_ in drawn], [100 * one.over(steps / STEPS).value for _, steps, one in drawn]
        errors = [100 * one.over(steps / STEPS).stderr for _, steps, one in drawn]
        axes.errorbar(values, rows, xerr=errors, fmt=marker, color=ink, markersize=5, capsize=3, label=text)
    axes.set_xscale("symlog", linthresh=1)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:+g} %".replace("-", "−").replace("+0", "0")))
    axes.set_yticks(range(len(summaries)), [f"{label(one.name)}, lr {one.training.lr:g}" for one in summaries])
    axes.invert_yaxis()
    axes.set_xlabel(f"mean change of a slot's training loss in {STEPS} steps")
    axes.legend(loc="best")
