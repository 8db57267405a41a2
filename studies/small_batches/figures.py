"""The mechanism as pictures of the study's page."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from studies.small_batches.densities import DENSITY_NAMES, Densities
from studies.small_batches.findings import Estimate, Gradients, Retrained
from studies.small_batches.settings import DensityName
from studies.small_batches.tables import METRIC_NAMES
from unequal.report.drawing import GOLD, INK, RED, log_scale, picture_grid
from unequal.report.formatting import label
from unequal.report.page import Drawing
from unequal.report.pipeline_pictures import sampler_probabilities
from unequal.training.gradient_meter import METRICS

COLOURS = (INK, RED, GOLD, "#2a9d74")
STYLES = {"raw": "--", "adam": "-"}
#: How draws by a density are called.
ARM_OF: dict[DensityName, str] = {"slots": "stratified", "least_variance": "least_variance"}


def drawings(densities: Densities, gradients: Sequence[Gradients], retrained: Sequence[Retrained]) -> list[Drawing]:
    """All pictures of the mechanism."""
    rows = len(retrained) * len(retrained[0].ways)
    return [
        Drawing(
            "scatter",
            (9.5, 4.0),
            partial(scatter, found=gradients),
            "What scatters a batch's gradient",
            "Left: images a step at which a gradient's noise is as long as the gradient. Right: how much of a batch's "
            "variance comes from its timesteps' differing mean gradients. Dashed: gradients as they are; lines: as "
            "Adam sees them. ± standard error over blocks.",
        ),
        Drawing(
            "cosines",
            (9.5, 4.2 * len(gradients)),
            partial(cosines, found=gradients),
            "Do slots oppose each other?",
            "Cosine between the mean gradients of two slots at the end of the training, in hundredths, mean over "
            "blocks ± its standard error; bold: its 95 % interval over blocks leaves 0 out. Red: a step for one raises "
            "the other's loss.",
        ),
        Drawing(
            "retrained",
            (9.5, 1.6 + 0.5 * rows),
            partial(changes, found=retrained),
            "What training on does to other timesteps",
            "Change of each slot's held-out loss in per cent (columns) by training an end on in different ways (rows), "
            "mean over blocks ± its standard error; bold: its 95 % interval over blocks leaves 0 out.",
        ),
        Drawing(
            "pictures",
            (9.5, 0.3 + 0.5 * (rows + len(retrained))),
            partial(pictures, found=retrained),
            "Pictures before and after",
            "From the same noise, of one block.",
        ),
        Drawing(
            "densities",
            (9.5, 3.8),
            partial(draw_densities, densities=densities),
            "The two densities",
            "Probability of each timestep over that of uniform timesteps, as measured once before the arms were "
            "trained; slots are shaded.",
        ),
    ]


def scatter(figure: Figure, found: Sequence[Gradients]) -> None:
    """Noise scale, and share between timesteps, over the images seen."""
    left, right = figure.subplots(1, 2)
    for one, ink in zip(found, COLOURS, strict=False):
        for metric in METRICS:
            style = {"color": ink, "linestyle": STYLES[metric], "capsize": 2, "marker": "o", "markersize": 3}
            text, points = f"{label(one.arm)}, {METRIC_NAMES[metric]}", range(len(one.images))
            scales = [(point, scale) for point in points if (scale := one.noise_scale(point, metric)) is not None]
            middle = np.array([scale[0] for _, scale in scales])
            below = middle * (1 - 1 / np.array([scale[1] for _, scale in scales]))
            above = middle * (np.array([scale[1] for _, scale in scales]) - 1)
            seen = [one.images[point] for point, _ in scales]
            left.errorbar(seen, middle, [below, above], label=text, **style)
            shares = [one.share(point, metric, "between_share") for point in points]
            heights, errors = ([100 * getattr(share, part) for share in shares] for part in ("mean", "stderr"))
            right.errorbar(one.images, heights, errors, **style)
    log_scale(left, "{:g}")
    left.set_ylabel("noise scale, images a step")
    right.set_ylabel("of the variance between timesteps, %")
    right.set_ylim(bottom=0)
    for axes in (left, right):
        axes.set_xlabel("images seen")
        axes.xaxis.set_major_formatter(EngFormatter())
    left.legend(loc="best", fontsize=8)


def cosines(figure: Figure, found: Sequence[Gradients]) -> None:
    """A matrix an arm and a metric, at the last point."""
    panels = np.reshape(figure.subplots(len(found), len(METRICS)), (len(found), len(METRICS)))
    for one, row in zip(found, panels, strict=True):
        for metric, axes in zip(METRICS, row, strict=True):
            pairs = one.cosines(len(one.images) - 1, metric)
            count = one.values(-1, metric, "cosines").shape[1]
            table = {cell: found for (i, j), found in pairs.items() for cell in ((i, j), (j, i))}
            matrix(axes, table, (count, count), 1.0)
            axes.set_title(f"{label(one.arm)}: gradients {METRIC_NAMES[metric]}", loc="left", fontsize=10)
            axes.set_yticks(range(count), [str(number) for number in range(1, count + 1)])
            axes.set_ylabel("slot")


def changes(figure: Figure, found: Sequence[Retrained]) -> None:
    """A matrix an arm: ways down, slots across."""
    panels = np.atleast_1d(figure.subplots(len(found), 1))
    tables = [
        {(i, k): cell for i, way in enumerate(one.ways) for k, cell in enumerate(one.slots(way))} for one in found
    ]
    bound = max(abs(cell.mean) for table in tables for cell in table.values())
    for one, table, axes in zip(found, tables, panels, strict=True):
        ways, count = one.ways, 1 + max(k for _, k in table)
        matrix(axes, table, (len(ways), count), -bound)
        axes.set_yticks(range(len(ways)), list(map(label, ways)))
        axes.set_title(f"{label(one.arm)}, trained on", loc="left", fontsize=10)


def matrix(axes: Axes, table: dict[tuple[int, int], Estimate], shape: tuple[int, int], bound: float) -> None:
    """Estimates as hundredths; what is above 0 is blue where the bound is above 0, else red."""
    means = np.full(shape, np.nan)
    for place, one in table.items():
        means[place] = one.mean
    colours = "RdBu" if bound > 0 else "RdBu_r"
    axes.imshow(means, cmap=colours, vmin=-abs(bound), vmax=abs(bound), aspect="auto")
    for (i, k), one in table.items():
        pale = abs(one.mean) > 0.7 * abs(bound)
        text = f"{100 * one.mean:+.{0 if abs(one.mean) >= 0.1 else 1}f}\n± {100 * one.stderr:.1f}".replace("-", "−")
        weight, ink = "bold" if one.side else "normal", "white" if pale else "#222222"
        axes.text(k, i, text, ha="center", va="center", fontsize=7.5, color=ink, fontweight=weight)
    axes.set_xticks(range(shape[1]), [str(number) for number in range(1, shape[1] + 1)])
    axes.set_xlabel("slot (1: data, last: noise)")
    axes.grid(False)
    axes.tick_params(length=0)


def pictures(figure: Figure, found: Sequence[Retrained]) -> None:
    """A row a model."""
    rows = {f"{label(one.arm)}: {label(way)}": images for one in found for way, images in one.pictures.items()}
    picture_grid(figure, rows)


def draw_densities(figure: Figure, densities: Densities) -> None:
    """Both, over uniform."""
    shown = {ARM_OF[name]: [densities.density(name)] for name in DENSITY_NAMES}
    sampler_probabilities(figure, shown, densities.slots)
