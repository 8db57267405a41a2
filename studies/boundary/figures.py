"""What came of every boundary, over where it lies."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from studies.blocks.figures import WIDTH
from studies.blocks.findings import Found
from studies.blocks.judgement import Family
from studies.blocks.settings import Comparison
from studies.blocks.tables import NAMES
from studies.boundary.borders import WAN, Border
from unequal.reporting.figures import GOLD, INK, PALE, RED, SOFT
from unequal.reporting.page import Drawing

#: Inches of a panel.
PANEL = 2.3
#: Whether images go by timesteps → colour, text, and how far it is moved aside, in λ.
KINDS = {False: (INK, "as many images each", -0.06), True: (RED, "images by timesteps", 0.06)}
CAPTION = (
    "Change of every endpoint against the control over λ = ln SNR of the boundary, falling towards the noise, with its "
    "95 % interval; below the line is better, shaded: within δ. Dotted: where Wan 2.2 hands over."
)


def sweep(families: Sequence[Family], found: Found, told: Sequence[Border]) -> Drawing:
    """A panel an endpoint."""
    draw = partial(draw_sweep, families=families, found=found, told=told)
    return Drawing("boundaries", (WIDTH, 0.8 + PANEL * len(families)), draw, "Where to hand over", CAPTION)


def draw_sweep(figure: Figure, families: Sequence[Family], found: Found, told: Sequence[Border]) -> None:
    """A line for each way of giving out images, a point a boundary."""
    panels = np.atleast_1d(figure.subplots(len(families), 1, sharex=True))
    for axes, family in zip(panels, families, strict=True):
        axes.axhspan(*(100 * np.expm1([-family.delta, family.delta])), color=PALE, linewidth=0, zorder=0)
        axes.axhline(0, color=SOFT, linewidth=1)
        for boundary in WAN.values():
            axes.axvline(boundary.log_snr, color=GOLD, linewidth=1, linestyle=":")
        for kind, (ink, text, aside) in KINDS.items():
            known = {
                one.log_snr: Comparison(arm=one.name, control=str(found.blocks.control))
                for one in told
                if one.by_timesteps == kind
            }
            points = [(at, family.found[one]) for at, one in known.items() if one in family.found]
            if points:
                middles = [100 * one.change for _, one in points]
                bars = np.array([[100 * (one.change - one.low), 100 * (one.high - one.change)] for _, one in points]).T
                places = [at + aside for at, _ in points]
                axes.errorbar(places, middles, bars, color=ink, label=text, marker="o", markersize=4, linewidth=1.2)
        axes.set_title(NAMES[family.endpoint], loc="left", fontsize=10)
        axes.set_ylabel("change in %")
    panels[0].legend(loc="best")
    panels[0].invert_xaxis()
    panels[-1].set_xlabel("λ of the boundary")
