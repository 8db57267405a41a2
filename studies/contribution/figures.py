"""Pictures of what timesteps contribute to enlarged images: qualities of ranges and windows, coefficients, strips."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from studies.contribution.findings import SYMBOLS, ModelRuns, by_prediction, mean_and_error
from studies.contribution.statements import LAST_LARGE
from unequal.diffusion.posterior import posterior
from unequal.diffusion.schedule import NoiseSchedule
from unequal.report.drawing import INK, PALE, RED, log_scale, log_timesteps, picture_grid
from unequal.report.page import Drawing

#: Inches; read well on a page.
LOW, HIGH = (8.4, 3.6), (8.4, 4.6)
COLOURS = {
    "epsilon": "#c8553d",
    "v_prediction": "#2f7fb8",
    "sample": "#2a9d74",
    "velocity": "#d99a2b",
    "mixed": "#8a5bb5",
}
LABELS = {"psnr": "PSNR in dB", "colour_shift": "colour shift in 8-bit units"}

CAPTIONS = {
    "predictions": (
        "The prediction and the colours",
        "Held-out images at low resolution, as one model of each prediction enlarges them from the same noise, and as "
        "they are.",
    ),
    "ranges": (
        "x0 replaced within a range",
        "PSNR and colour shift that are left. Every training is a point, with ± 1 standard error over images.",
    ),
    "replaced": (
        "The same as pictures",
        "Samples of {} with x0 replaced within each range: what is mended was spoiled there.",
    ),
    "windows": (
        "x0 replaced within windows of one width",
        "Lines are means over trainings, points single trainings; dashed: nothing replaced.",
    ),
    "coefficients": (
        "What a step takes from x0 and from x_t",
        "Coefficients of the posterior's mean (DDPM, eq. 7). Shaded: the timesteps at which the paper sees a "
        "coefficient of x0 that is not small.",
    ),
}


def panels(figure: Figure) -> dict[str, Axes]:
    """One axes for each figure of Quality, side by side."""
    found = dict(zip(LABELS, figure.subplots(1, 2), strict=True))
    for name, axes in found.items():
        axes.set_title(LABELS[name], loc="left", fontsize=10)
    return found


def legend(figure: Figure, axes: Axes) -> None:
    """The predictions, above all panels."""
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper right", ncols=len(COLOURS))


def ranges(figure: Figure, trainings: Sequence[ModelRuns]) -> None:
    """What is left with x0 replaced in each range: every training a point, with ± 1 standard error over images."""
    names = ["nothing", *(str(list(pair)) for pair in trainings[0].ranges)]
    found = panels(figure)
    for quality, axes in found.items():
        groups = by_prediction(trainings)
        for number, (prediction, members) in enumerate(groups.items()):
            shift = 0.22 * (number - (len(groups) - 1) / 2)
            style: dict[str, Any] = {"color": COLOURS[prediction], "markersize": 4, "elinewidth": 1}
            for one in members:
                runs = [one.unreplaced, *one.ranges.values()]
                means, errors = zip(*(mean_and_error(getattr(run, quality)) for run in runs), strict=True)
                text = SYMBOLS[prediction] if one is members[0] else None
                axes.errorbar(means, np.arange(len(runs)) + shift, xerr=errors, fmt="o", label=text, **style)
        axes.set_yticks(range(len(names)), names if quality == "psnr" else [])
        axes.invert_yaxis()
    found["colour_shift"].set_xscale("log")
    found["colour_shift"].xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    found["psnr"].set_ylabel("x0 replaced within")
    legend(figure, found["psnr"])


def windows(figure: Figure, trainings: Sequence[ModelRuns]) -> None:
    """What is left with x0 replaced in windows that slide over all timesteps; dashed: with nothing replaced."""
    found = panels(figure)
    for quality, axes in found.items():
        for prediction, members in by_prediction(trainings).items():
            colour = COLOURS[prediction]
            table = np.array([[getattr(run, quality).mean() for run in one.windows.values()] for one in members])
            middles = [(first + last) / 2 for first, last in members[0].windows]
            axes.plot(middles, table.mean(0), color=colour, linewidth=1.8, label=SYMBOLS[prediction])
            axes.plot(middles, table.T, linestyle="", marker="o", markersize=3, color=colour, alpha=0.6)
            plain = np.mean([getattr(one.unreplaced, quality).mean() for one in members])
            axes.axhline(float(plain), color=colour, linewidth=0.9, linestyle=(0, (4, 3)))
        axes.set_xlabel("middle of the window (1: data, T: noise)")
    log_scale(found["colour_shift"], "{:g}")
    legend(figure, found["psnr"])


def coefficients(figure: Figure, schedule: NoiseSchedule) -> None:
    """The coefficients of x0 and x_t in the posterior's mean; shaded: the steps to which the paper gives weight."""
    axes = figure.subplots()
    found, timesteps = posterior(schedule), np.arange(1, schedule.timesteps + 1)
    axes.axvspan(0.9, LAST_LARGE + 0.5, color=PALE, linewidth=0, zorder=0)
    axes.plot(timesteps, found.x_t, color=INK, linewidth=1.8, label="of $x_t$")
    axes.plot(timesteps, found.x0, color=RED, linewidth=1.8, label="of $x_0$")
    log_timesteps(axes, schedule.timesteps)
    axes.set_ylabel("coefficient")
    axes.legend(loc="center right")


def strip(first: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """What each prediction makes of the low-resolution images, and the truth; the first training of each."""
    tables = next(iter(first.values()))
    made = {SYMBOLS[name]: first[name]["samples"][0] for name in SYMBOLS if name in first}
    return {"low resolution": tables["low"]} | made | {"truth": tables["truth"]}


def replaced(training: ModelRuns, tables: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Samples of one training with nothing replaced and with each range replaced, and the truth."""
    names = ["nothing replaced", *(str(list(pair)) for pair in training.ranges)]
    return dict(zip(names, tables["samples"], strict=False)) | {"truth": tables["truth"]}


def drawings(
    trainings: Sequence[ModelRuns], schedule: NoiseSchedule, arrays: Sequence[Mapping[str, np.ndarray]]
) -> list[Drawing]:
    """All pictures, in the order of the page.

    Args:
        trainings, schedule: what was measured.
        arrays: the tables of each training, its images among them.
    """
    first = {one.prediction: tables for one, tables in reversed(list(zip(trainings, arrays, strict=True)))}
    drawn: dict[str, tuple[tuple[float, float], Callable[[Figure], None]]] = {
        "predictions": (LOW, partial(picture_grid, rows=strip(first))),
        "ranges": (LOW, partial(ranges, trainings=trainings)),
        "replaced": (HIGH, partial(picture_grid, rows=replaced(trainings[0], arrays[0]))),
        "windows": (LOW, partial(windows, trainings=trainings)),
        "coefficients": (LOW, partial(coefficients, schedule=schedule)),
    }
    texts = {name: (heading, text.format(trainings[0].name)) for name, (heading, text) in CAPTIONS.items()}
    return [Drawing(name, *how, *texts[name]) for name, how in drawn.items()]
