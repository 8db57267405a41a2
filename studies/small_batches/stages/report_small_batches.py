"""Page of the study: the comparison, measured gradients, and the effects of further training on other timesteps."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, SymLogNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from studies.small_batches.findings import Estimate, Gradients, Retrained, read_gradients, read_retrained
from studies.small_batches.params import Retraining
from unequal.comparison.report import Extras, Judged, ReportSettings, write_report
from unequal.files import rounded
from unequal.pipeline.stage import Run, stage
from unequal.report.drawing import SOFT
from unequal.report.formatting import label, percent
from unequal.report.page import Drawing, Table
from unequal.settings.strict import key
from unequal.training.gradient_meter import METRICS

METRIC_NAMES = {"raw": "as they are", "adam": "as Adam scales them"}
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
    "side. In a block: those that do so by that block's own error. As Adam scales them: a negative "
    "cosine means that Adam's step for the one slot raises the other's loss, in first order."
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
    return Table("Effect of further training on other timesteps", columns, rows, RETRAINED_NOTE)


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
    """Return a row of the file."""
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


def drawings(gradients: Sequence[Gradients], retrained: Sequence[Retrained]) -> list[Drawing]:
    """Pictures of the mechanism."""
    rows = len(retrained) * len(retrained[0].ways)
    note = "mean over blocks ± its standard error; bold: its 95 % interval over blocks leaves 0 out."
    return [
        Drawing(
            "cosines",
            (9.5, 4.2 * len(gradients)),
            partial(cosines, found=gradients),
            "Do slots oppose each other?",
            "Cosine between the mean gradients of two slots at the end of the training, in hundredths, "
            f"{note} Red: a step for one raises the other's loss.",
        ),
        Drawing(
            "retrained",
            (9.5, 1.6 + 0.5 * rows),
            partial(changes, found=retrained),
            "Effect of further training on other timesteps",
            "Change of each slot's held-out loss in per cent (columns) by training an end further in different ways "
            f"(rows), {note}",
        ),
    ]


def cosines(figure: Figure, found: Sequence[Gradients]) -> None:
    """A matrix an arm and a metric, at the last point."""
    panels = np.reshape(figure.subplots(len(found), len(METRICS)), (len(found), len(METRICS)))
    for one, row in zip(found, panels, strict=True):
        for metric, axes in zip(METRICS, row, strict=True):
            pairs = one.cosines(len(one.images) - 1, metric)
            count = one.values(-1, metric, "cosines").shape[1]
            table = {cell: found for (i, j), found in pairs.items() for cell in ((i, j), (j, i))}
            shades = matrix(axes, table, (count, count), "RdBu", Normalize(-100, 100))
            for i, k in ((i, k) for i in range(count) for k in range(count) if i != k and (i, k) not in table):
                axes.text(k, i, "–", ha="center", va="center", color=SOFT)
            axes.set_title(f"{label(one.arm)}: gradients {METRIC_NAMES[metric]}", loc="left", fontsize=10)
            axes.set_yticks(range(count), [str(number) for number in range(1, count + 1)])
            axes.set_ylabel("slot")
    colour_key(figure, shades, panels, "cosine in hundredths; –: lost in noise")


def changes(figure: Figure, found: Sequence[Retrained]) -> None:
    """A matrix an arm: ways down, slots across."""
    panels = np.atleast_1d(figure.subplots(len(found), 1))
    tables = [
        {(i, k): cell for i, way in enumerate(one.ways) for k, cell in enumerate(one.slots(way))} for one in found
    ]
    bound = 100 * max(abs(cell.mean) for table in tables for cell in table.values())
    # Linear up to 1 %: one large change does not leave all others white.
    norm = SymLogNorm(1, vmin=-bound, vmax=bound)
    for one, table, axes in zip(found, tables, panels, strict=True):
        ways, count = one.ways, 1 + max(k for _, k in table)
        shades = matrix(axes, table, (len(ways), count), "RdBu_r", norm)
        axes.set_yticks(
            range(len(ways)), [f"{label(way)} alone" if way.startswith("slot_") else label(way) for way in ways]
        )
        axes.set_title(f"{label(one.arm)}, trained further on", loc="left", fontsize=10)
    colour_key(figure, shades, panels, "change of the slot's loss in %; bold: its 95 % interval excludes 0")


def matrix(
    axes: Axes, table: dict[tuple[int, int], Estimate], shape: tuple[int, int], colours: str, norm: Normalize
) -> AxesImage:
    """Estimates as hundredths in coloured cells."""
    means = np.full(shape, np.nan)
    for place, one in table.items():
        means[place] = 100 * one.mean
    shades = axes.imshow(means, cmap=colours, norm=norm, aspect="auto")
    for (i, k), one in table.items():
        dark = abs(float(norm(means[i, k])) - 0.5) > 0.36
        text = f"{means[i, k]:+.{0 if abs(one.mean) >= 0.1 else 1}f}\n± {100 * one.stderr:.1f}".replace("-", "−")
        weight, ink = "bold" if one.side else "normal", "white" if dark else "#222222"
        axes.text(k, i, text, ha="center", va="center", fontsize=7.5, color=ink, fontweight=weight)
    axes.set_xticks(range(shape[1]), [str(number) for number in range(1, shape[1] + 1)])
    axes.set_xlabel("slot (1: data, last: noise)")
    axes.grid(False)
    axes.tick_params(length=0)
    return shades


def colour_key(figure: Figure, shades: AxesImage, panels: np.ndarray, text: str) -> None:
    """Colour bar below all panels."""
    bar = figure.colorbar(shades, ax=panels, location="bottom", aspect=60, pad=0.02)
    bar.set_label(text)
    bar.ax.xaxis.set_major_formatter(lambda value, _: f"{value:+.0f}".replace("-", "−") if value else "0")
    bar.outline.set_visible(False)


class Settings(ReportSettings):
    """Keys of params.yaml that this stage reads."""

    mechanism: tuple[int, ...]
    measured: tuple[str, ...] = key("gradients.arms")
    retraining: Retraining


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write the comparison's page, with gradients and the effects of further training."""
    gradients = read_gradients(run.input("results/gradients"), settings.measured, settings.mechanism)
    chosen = settings.retraining
    retrained = read_retrained(run.input("results/retrained"), chosen.arms, chosen.ways, settings.mechanism)

    def own(judged: Judged) -> Extras:
        return Extras(
            [gradients_table(gradients), retrained_table(retrained)],
            drawings(gradients, retrained),
            {"gradients": gradient_rows(gradients), "retrained": retrained_rows(retrained)},
        )

    write_report(run, settings, own)


if __name__ == "__main__":
    main()
