"""Interference as tables: in one figure a way of training, and slot by slot."""

from collections.abc import Sequence
from typing import Any

from studies.interference.findings import STEPS, Summary, TrainedOn
from unequal.files import rounded
from unequal.reporting.page import Table
from unequal.reporting.tables import label, slot_change_rows


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
        for row in slot_change_rows({split: found.changes(recipe, split) for split in ("train", "holdout")})
    ]
