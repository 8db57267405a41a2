"""The mechanism as tables of the study's page, and as rows of files."""

from collections.abc import Iterator, Sequence
from typing import Any

from studies.small_batches.findings import Estimate, Gradients, Retrained
from unequal.files import rounded
from unequal.report.formatting import label, percent
from unequal.report.page import Table
from unequal.training.gradient_meter import METRICS

METRIC_NAMES = {"raw": "as they are", "adam": "as Adam sees them"}
SHARES = {
    "between_share": "of the variance between timesteps",
    "variance_slots": "variance of stratified batches",
    "variance_least_variance": "variance of least-variance batches",
}
GRADIENT_NOTE = (
    "Of the weights as they were, on training images; ± is the standard error over blocks. Noise scale: images a step "
    "at which a gradient's noise is as long as the gradient (geometric mean, × or ÷ its error). Between timesteps: "
    "between the mean gradients of cells that slots are cut into. Variances of samplers are shares of that of uniform "
    "batches of as many images. Pairs of slots: those whose mean gradients' cosine, free of the bias of noise, lies "
    "below or above 0 by its 95 % interval over blocks; of pairs that are at right angles, 2.5 % are counted on either "
    "side. In a block: those that do so by that block's own error. As Adam sees them: scaled so that a negative cosine "
    "means that Adam's step for the one slot raises the other's loss, in first order."
)
RETRAINED_NOTE = (
    "Relative change of each slot's held-out loss, mean over blocks ± its standard error, by training the end on with "
    "batches of its own size, for as many images and at a constant rate; the slot that is trained inside is in "
    "brackets. Uniform: on all timesteps, for control."
)


def gradients_table(found: Sequence[Gradients]) -> Table:
    """A row a point of an arm's training and a metric."""
    columns = ("gradients of", "images seen", "noise scale", *SHARES.values(), "slots opposed", "slots aligned")
    columns += ("opposed in a block", "aligned in a block")
    rows = [(one.arm, metric, point) for one in found for metric in METRICS for point in range(len(one.images))]
    arms = {one.arm: one for one in found}
    cells = [gradient_cells(arms[arm], metric, point) for arm, metric, point in rows]
    return Table("What scatters a batch's gradient", columns, cells, GRADIENT_NOTE)


def gradient_cells(found: Gradients, metric: str, point: int) -> tuple[str, ...]:
    """A row of the table."""
    scale = found.noise_scale(point, metric)
    return (
        f"{label(found.arm)}, {METRIC_NAMES[metric]}",
        f"{found.images[point]:,}",
        "lost in noise" if scale is None else f"{scale[0]:.3g} ×÷ {scale[1]:.2f}",
        *(with_error(found.share(point, metric, one)) for one in SHARES),
        *counted(found.cosines(point, metric)),
        *(counts(found.beyond(point, metric, side)) for side in (-1, 1)),
    )


def counts(found: Sequence[int]) -> str:
    """One a block."""
    return ", ".join(map(str, found))


def counted(cosines: dict[tuple[int, int], Estimate]) -> Iterator[str]:
    """How many pairs lie below 0, and how many above."""
    for side in (-1, 1):
        yield f"{sum(one.side == side for one in cosines.values())} of {len(cosines)}"


def with_error(found: Estimate, sign: bool = False) -> str:
    """A share in per cent, with its standard error."""
    return f"{percent(found.mean, sign)} ± {percent(found.stderr)}"


def retrained_table(found: Sequence[Retrained]) -> Table:
    """A row a way of training an arm's end on."""
    count = len(found[0].slots(found[0].ways[0]))
    columns = ("trained on", "all", *(f"slot {number}" for number in range(1, count + 1)))
    rows = [retrained_cells(one, way) for one in found for way in one.ways]
    return Table("What training on does to other timesteps", columns, rows, RETRAINED_NOTE)


def retrained_cells(found: Retrained, way: str) -> tuple[str, ...]:
    """A row of the table."""
    cells = [with_error(one, sign=True) for one in found.slots(way)]
    cells = [f"[{cell}]" if way == f"slot_{number}" else cell for number, cell in enumerate(cells, 1)]
    return f"{label(found.arm)}: {label(way)}", with_error(found.whole(way), sign=True), *cells


def gradient_rows(found: Sequence[Gradients]) -> list[dict[str, Any]]:
    """A row a block, a point and a metric; what is lost in noise is left empty."""
    return [
        {"arm": one.arm, "block": number, "images": point["images"], "metric": metric}
        | {name: figure_or_empty(point[metric][name]["value"]) for name in ("noise_scale", *SHARES)}
        | {f"{name}_stderr": figure_or_empty(point[metric][name]["stderr"]) for name in ("noise_scale", *SHARES)}
        for one in found
        for number, points in enumerate(one.points)
        for point in points
        for metric in METRICS
    ]


def figure_or_empty(value: float | None) -> float | str:
    """As a file of rows has it."""
    return "" if value is None else rounded(value)


def retrained_rows(found: Sequence[Retrained]) -> list[dict[str, Any]]:
    """A row a block, a way and a slot."""
    return [
        {"arm": one.arm, "block": number, "trained_on": way, "slot": slot}
        | {"change": change, "stderr_over_draws": stderr}
        for one in found
        for number, ways in enumerate(one.blocks)
        for way, changes in ways.items()
        for slot, (change, stderr) in enumerate(zip(changes["slots"], changes["slots_stderr"], strict=True), 1)
    ]
