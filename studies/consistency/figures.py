"""The pictures of the consistency study."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from studies.consistency.findings import MEASURES, ReplicaFindings, Row, model_name
from unequal.report.drawing import GOLD, INK, OTHER_COLOURS, SOFT, log_scale, log_timesteps, picture_grid


class DrawnCurve(NamedTuple):
    """A kind of pair and a condition, and how its likeness over timesteps is drawn."""

    relation: str
    condition: str
    text: str
    colour: str
    style: str = "-"


CURVES = (
    DrawnCurve("seeds", "same", "other seed", INK),
    DrawnCurve("widths", "same", "other width", "#2f7fb8"),
    DrawnCurve("optimum", "same", "best denoiser", GOLD),
    DrawnCurve("seeds", "other_noise", "other noise, same image", "#c8553d", "--"),
    DrawnCurve("seeds", "other_image", "other noise, other image", SOFT, ":"),
)
#: Of widths, in their order.
WIDTH_COLOURS = (INK, "#c8553d", "#2a9d74", GOLD, *OTHER_COLOURS)


def grid(figure: Figure, found: ReplicaFindings) -> None:
    """Pictures of the same noises: a row a model, a column a noise."""
    rows = {model_name(name): images for name, images in found.images.items() if name != "optimum"}
    if "optimum" in found.images:
        rows["best denoiser"] = found.images["optimum"]
    picture_grid(figure, rows | {"nearest training image": found.known})


def predictions(figure: Figure, found: ReplicaFindings) -> None:
    """Likeness of predicted x0 over timesteps, a panel a measure."""
    panels: Sequence[Axes] = figure.subplots(1, len(MEASURES))
    for axes, (measure, name) in zip(panels, MEASURES.items(), strict=True):
        for curve in CURVES:
            rows = [row for row in found.predictions if row["relation"] == curve.relation]
            if rows:
                draw_curve(axes, over_timesteps(rows, f"{measure}_{curve.condition}"), curve)
        log_timesteps(axes, found.conditions["timesteps"])
        axes.set_xlabel("timestep, from 1")
        axes.set_title(name, loc="left", fontsize=10)
    panels[0].set_yscale("log")
    handles, texts = panels[0].get_legend_handles_labels()
    figure.legend(handles, texts, loc="outside lower center", ncols=len(CURVES), frameon=False)


def over_timesteps(rows: Sequence[Row], column: str) -> Mapping[int, list[float]]:
    """Timestep → a column's figures of all pairs."""
    found: dict[int, list[float]] = {}
    for row in rows:
        found.setdefault(row["timestep"], []).append(row[column])
    return found


def draw_curve(axes: Axes, figures: Mapping[int, list[float]], curve: DrawnCurve) -> None:
    """The mean over pairs as a line, all pairs as a band."""
    x = np.array(list(figures)) + 1
    table = np.array(list(figures.values()))
    axes.plot(x, table.mean(1), curve.style, color=curve.colour, linewidth=1.6, label=curve.text)
    axes.fill_between(x, table.min(1), table.max(1), color=curve.colour, alpha=0.2, linewidth=0)


def lines(figure: Figure, found: ReplicaFindings) -> None:
    """The loss between two models of different seeds, and the loss before training."""
    axes = figure.subplots()
    colours = dict(zip(found.landscape, WIDTH_COLOURS, strict=False))
    for number, (width, line) in enumerate(found.lines):
        text = width if width not in [earlier for earlier, _ in found.lines[:number]] else None
        share = np.linspace(0, 1, len(line["losses"]))
        axes.plot(share, line["losses"], color=colours[width], linewidth=1.6, marker=".", markersize=4, label=text)
    before = [one["untrained"]["loss"] for one in found.points.values()]
    axes.axhspan(min(before), max(before), color=SOFT, alpha=0.3, linewidth=0, label="before training")
    log_scale(axes, "{:g}")
    axes.set_xlabel("place on the line from one seed's model to another's")
    axes.set_ylabel("training loss")
    axes.legend(loc="lower center", ncols=3)


def convergence(figure: Figure, found: ReplicaFindings) -> None:
    """Rayleigh quotients of the power iterations, and how far an eigenvalue may at most be from them."""
    upper, lower = figure.subplots(2, 1, sharex=True)
    colours = dict(zip(found.landscape, WIDTH_COLOURS, strict=False))
    drawn: set[str] = set()
    for name, point in found.points.items():
        width = name.split("/")[0]
        for state, style in (("trained", "-"), ("untrained", "--")):
            quotients, residuals = (np.array(point[state][key]) for key in ("quotients", "residuals"))
            text = f"{width}, {state}"
            x = np.arange(1, len(quotients) + 1)
            label = None if text in drawn else text
            upper.plot(x, quotients, style, color=colours[width], linewidth=1.3, label=label)
            lower.plot(x, residuals / np.abs(quotients), style, color=colours[width], linewidth=1.3)
            drawn.add(text)
    lower.set_yscale("log")
    upper.set_ylabel("Rayleigh quotient")
    lower.set_ylabel("residual over quotient")
    lower.set_xlabel("iteration")
    lower.xaxis.set_major_locator(MaxNLocator(integer=True))
    upper.legend(loc="lower right", ncols=2)
