"""What came of every boundary, over where it lies."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from studies.boundary.borders import WAN, Border, planned
from unequal.comparison.figures import WIDTH
from unequal.comparison.judgement import Family
from unequal.comparison.results import Found
from unequal.comparison.tables import NAMES
from unequal.report.drawing import GOLD, INK, PALE, RED, SOFT
from unequal.report.formatting import label
from unequal.report.page import Drawing

#: Inches of a panel.
PANEL = 2.3
#: Whether images go by timesteps → colour, text, and how far it is moved aside, in λ.
KINDS = {
    False: (INK, "as many images each, against {joint}", -0.06),
    True: (RED, "images by timesteps, against as many each", 0.06),
}
CAPTION = (
    "Change of every endpoint over λ = ln SNR of the boundary, falling towards the noise, with its 95 % interval; "
    "below the line is better, shaded: within δ. Dark: two experts that see as many images each, against {joint}. Red: "
    "the same boundary with images in proportion to timesteps, against the dark one at the same λ, which tells what "
    "sharing them out so does. Dotted: where Wan 2.2 hands over."
)


def sweep(families: Sequence[Family], found: Found, told: Sequence[Border]) -> Drawing:
    """A panel an endpoint."""
    draw = partial(draw_sweep, families=families, found=found, told=told)
    caption = CAPTION.format(joint=label(found.blocks.repeated.control))
    return Drawing("boundaries", (WIDTH, 0.8 + PANEL * len(families)), draw, "Where to hand over", caption)


def draw_sweep(figure: Figure, families: Sequence[Family], found: Found, told: Sequence[Border]) -> None:
    """A line for each way of giving out images, a point a boundary."""
    panels = np.atleast_1d(figure.subplots(len(families), 1, sharex=True))
    compared, joint = planned(told, found.blocks), label(found.blocks.repeated.control)
    for axes, family in zip(panels, families, strict=True):
        axes.axhspan(*(100 * np.expm1([-family.delta, family.delta])), color=PALE, linewidth=0, zorder=0)
        axes.axhline(0, color=SOFT, linewidth=1)
        for boundary in WAN.values():
            axes.axvline(boundary.log_snr, color=GOLD, linewidth=1, linestyle=":")
        for kind, (ink, text, aside) in KINDS.items():
            kindred = [one for one in told if one.by_timesteps == kind and one.name in compared]
            points = [(one.log_snr, family.found[compared[one.name]]) for one in kindred]
            if points:
                middles = [100 * one.change for _, one in points]
                bars = np.array([[100 * (one.change - one.low), 100 * (one.high - one.change)] for _, one in points]).T
                places = [at + aside for at, _ in points]
                name = text.format(joint=joint)
                axes.errorbar(places, middles, bars, color=ink, label=name, marker="o", markersize=4, linewidth=1.2)
        axes.set_title(NAMES[family.endpoint], loc="left", fontsize=10)
        axes.set_ylabel("change in %")
    panels[0].legend(loc="best")
    panels[0].invert_xaxis()
    panels[-1].set_xlabel("λ of the boundary")
