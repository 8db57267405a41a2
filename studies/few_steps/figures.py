"""The study's pictures: FID over calls, and where steps lie."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from studies.few_steps.findings import Found
from unequal.comparison.figures import WIDTH
from unequal.diffusion.schedule import NoiseSchedule
from unequal.report.drawing import GOLD, INK, RED, SOFT, log_scale
from unequal.report.formatting import label
from unequal.report.page import Drawing

#: A colour a spacing, a panel a solver.
COLOURS = {
    "uniform": SOFT,
    "quadratic": "#7a3a5d",
    "log_snr": INK,
    "edm": "#2a9d74",
    "profile": RED,
    "rescaled_profile": "#8a5bb5",
}


def drawings(found: Found, schedule: NoiseSchedule) -> list[Drawing]:
    """All pictures of the page."""
    spacings = len(found.sweep.spacings)
    return [
        Drawing(
            "calls",
            (1.2 * WIDTH, 4.2),
            partial(over_calls, found=found),
            "What few calls of the network bring",
            "Geometric mean of FID over blocks, points single bases; both axes are logarithmic. Lower is better, and a "
            "curve to the left takes fewer calls for the same FID.",
        ),
        Drawing(
            "steps",
            (WIDTH, 1.2 + 0.45 * spacings),
            partial(along_log_snr, found=found, schedule=schedule),
            "Where steps lie",
            f"The timesteps of {found.sweep.calls[0]} steps of the first base by each spacing, over λ = ln SNR, which "
            "falls towards the noise.",
        ),
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
        axes.legend(loc="best", fontsize=7)
    panels[0].set_ylabel("FID (lower is better)")


def along_log_snr(figure: Figure, found: Found, schedule: NoiseSchedule) -> None:
    """A row a spacing."""
    axes = figure.subplots()
    sweep, log_snr = found.sweep, schedule.snr.log().numpy()
    # A solver that asks once a step has all of them; its timesteps are those of every solver with as many steps.
    solver = next((one for one in sweep.solvers if one != "heun"), sweep.solvers[0])
    for row, spacing in enumerate(sweep.spacings):
        timesteps = found.of(sweep.calls[0], f"{solver}_{spacing}")[0]["timesteps"]
        axes.plot(log_snr[timesteps], [row] * len(timesteps), "o-", color=COLOURS[spacing], markersize=5, linewidth=0.8)
    axes.set_yticks(range(len(sweep.spacings)), [one.replace("_", "-") for one in sweep.spacings])
    axes.set_ylim(len(sweep.spacings) - 0.5, -0.5)
    axes.invert_xaxis()
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("λ = ln SNR")
