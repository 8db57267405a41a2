"""The league in one picture: what each recipe puts its weight on, beside what came of it."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from studies.league.standings import standings
from unequal.comparison.figures import OTHER, ROW, WIDTH, WORD_COLOURS, interval
from unequal.comparison.judgement import Family
from unequal.comparison.results import Found
from unequal.comparison.settings import Contrast
from unequal.comparison.tables import NAMES
from unequal.diffusion.schedule import NoiseSchedule
from unequal.report.drawing import INK, PALE, SOFT
from unequal.report.effective_weighting import Emphasis
from unequal.report.formatting import label
from unequal.report.page import Drawing
from unequal.timesteps.densities import edges_of

#: How much of its row the highest curve fills, and the share of each row's width that the curves have.
FILLED, SHARE = 0.85, 1.4
TITLE, CAPTION = (
    "The league",
    "A row a recipe, the best by the first endpoint above. Left: density × weight of an error of the velocity, a unit "
    "of λ = ln SNR, falling towards the noise; of what is learned, as it was at the end of the trainings, in the mean "
    "of all blocks; dotted: the density alone, where the weight of an error is not known. Right: the change of every "
    "endpoint against the control with its 95 % interval; left is better, shaded: within δ.",
)


def league(
    families: Sequence[Family], found: Found, weights: Mapping[str, Emphasis], schedule: NoiseSchedule
) -> Drawing:
    """Recipes by what they put their weight on × endpoints."""
    rows = len(standings(found))
    size = (1.3 * WIDTH, 1.4 + 1.8 * ROW * rows)
    draw = partial(draw_league, families=families, found=found, weights=weights, schedule=schedule)
    return Drawing("league", size, draw, TITLE, CAPTION)


def draw_league(
    figure: Figure,
    families: Sequence[Family],
    found: Found,
    weights: Mapping[str, Emphasis],
    schedule: NoiseSchedule,
) -> None:
    """A panel of curves, and one an endpoint, that share their rows."""
    arms = [arm for arm, _ in standings(found)]
    left, *panels = figure.subplots(1, 1 + len(families), sharey=True, width_ratios=[SHARE, *[1] * len(families)])
    ridges(left, [weights[arm] for arm in arms], schedule)
    for axes, family in zip(panels, families, strict=True):
        axes.axvspan(*(100 * np.expm1([-family.delta, family.delta])), color=PALE, linewidth=0, zorder=0)
        axes.axvline(0, color=SOFT, linewidth=1)
        for place, arm in enumerate(arms):
            told = family.found.get(Contrast(arm=arm, control=str(found.blocks.control)))
            if told is not None:
                interval(axes, place, told, WORD_COLOURS.get(told.word, OTHER))
        axes.set_title(NAMES[family.endpoint].replace(", ", ",\n"), loc="left", fontsize=8)
        axes.set_xlabel("change in %")
        axes.grid(axis="y", visible=False)
    left.set_yticks(range(len(arms)), [label(arm) for arm in arms])
    left.set_ylim(len(arms) - 0.4, -1.0)


def ridges(axes: Axes, weights: Sequence[Emphasis], schedule: NoiseSchedule) -> None:
    """A curve a row, all on one scale."""
    log_snr, cells = schedule.snr.log().numpy(), -np.diff(edges_of(schedule, "closed").log_snr)
    # The outermost cells end at the outermost timesteps, so that open densities pile up there: they are left out.
    inner = slice(1, -1)
    shares = [(one.density if one.product is None else one.product)[inner] / cells[inner] for one in weights]
    scale = FILLED / max(float(one.max()) for one in shares)
    for place, (one, share) in enumerate(zip(weights, shares, strict=True)):
        style: dict[str, Any] = {"linestyle": ":"} if one.product is None else {}
        axes.plot(log_snr[inner], place - scale * share, color=INK, linewidth=1.4, **style)
        if one.product is not None:
            axes.fill_between(log_snr[inner], place, place - scale * share, color=INK, alpha=0.15, linewidth=0)
    axes.invert_xaxis()
    axes.set_xlabel("λ = ln SNR")
    axes.grid(axis="y", visible=False)
