"""Forest plots: relative changes with their intervals, one below another, on one kind of axis everywhere."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from unequal.report.drawing import GOLD, INK, PALE, RED, SOFT
from unequal.report.formatting import signed

BETTER, WORSE, SAME = "better", "worse", "the same within δ"
#: Verdict → colour; every other row is grey.
COLOURS = {BETTER: "#2a9d74", WORSE: RED, SAME: INK}
#: Rows that reach beyond this multiple of the median row's reach do not extend the axis and are cut.
FARTHEST = 4.0


class ForestRow(NamedTuple):
    """A comparison in a forest plot.

    Attributes:
        name: text left of the row.
        change, low, high: relative change with its 95 % interval, all as shares.
        verdict: text right of the row.
        detectable: least change, in ln ratio, that the study can detect; None: not marked.
    """

    name: str
    change: float
    low: float
    high: float
    verdict: str = ""
    detectable: float | None = None

    @property
    def ends(self) -> tuple[float, float]:
        """Ends of the interval, in ln ratio."""
        low, high = np.log1p([self.low, self.high]).tolist()
        return low, high

    @property
    def ink(self) -> str:
        """Colour of the verdict; without a verdict, dark where the interval excludes zero."""
        named = COLOURS.get(self.verdict)
        return named or (SOFT if self.verdict or not self.excludes_zero else INK)

    @property
    def excludes_zero(self) -> bool:
        """Say whether the interval lies on one side of zero."""
        return self.low > 0 or self.high < 0


def forest_size(rows: int) -> tuple[float, float]:
    """Width and height of a forest plot with this number of rows, in inches."""
    return 8.4, 0.36 * rows + 1.5


def forest_plot(figure: Figure, rows: Sequence[ForestRow], delta: float | None = None, text: str = "change") -> None:
    """Draw rows from top to bottom, with verdicts at the right and a key below.

    Positions are logarithms of the ratio, so that a halving and a doubling are equally far from zero. Ticks are in per
    cent.

    Args:
        figure: figure to draw on.
        rows: from top to bottom.
        delta: half of the band's width in ln ratio; None: there is no band.
        text: what changes, for the axis.
    """
    axes, limit = figure.subplots(), axis_limit(rows, delta)
    if delta is not None:
        axes.axvspan(-delta, delta, color=PALE, linewidth=0, zorder=0)
    axes.axvline(0, color=INK, linewidth=1)
    for place, row in enumerate(rows):
        draw_row(axes, place, row, limit)
        axes.text(1.015, place, row.verdict, transform=axes.get_yaxis_transform(), va="center", fontsize=9)
        if row.detectable is not None and row.detectable < limit:
            ends = [-row.detectable, row.detectable]
            axes.plot(ends, [place] * 2, "|", color=GOLD, markersize=11, markeredgewidth=1.4, zorder=1)
    axes.set_xlim(-limit, limit)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    marks = percent_ticks(limit)
    axes.set_xticks(np.log1p(marks), [f"{100 * mark:+.3g} %".replace("-", "−") if mark else "0" for mark in marks])
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    axes.set_xlabel(f"{text} (left: lower)")
    axes.grid(False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    draw_key(figure, rows, banded=delta is not None)


def axis_limit(rows: Sequence[ForestRow], delta: float | None) -> float:
    """Limit of the axis, in ln ratio; rows that reach much farther than the median row do not extend it."""
    reach = np.array([max(map(abs, row.ends)) for row in rows] or [0.0])
    usual = reach[reach <= FARTHEST * max(float(np.median(reach)), delta or 0.0)]
    farthest = usual if len(usual) else reach
    return 1.12 * max(float(farthest.max()), 1.5 * (delta or 0.0), 0.005)


def draw_row(axes: Axes, place: int, row: ForestRow, limit: float) -> None:
    """Draw an interval; an arrow at the edge, with a number, marks an end beyond the axis."""
    (low, high), middle = row.ends, float(np.log1p(row.change))
    edge, ink = 0.985 * limit, row.ink
    axes.plot(np.clip([low, high], -edge, edge), [place, place], color=ink, linewidth=2, solid_capstyle="butt")
    face = ink if row.excludes_zero else "white"
    if abs(middle) < edge:
        axes.plot(middle, place, "o", color=ink, markerfacecolor=face, markersize=6)
    for side, end, value in ((-1, low, row.low), (1, high, row.high)):
        beyond = side * middle >= edge
        if side * end > edge or beyond:
            axes.plot(side * edge, place, "<" if side < 0 else ">", color=ink, markersize=7, clip_on=False)
            number = f"{signed(100 * (row.change if beyond else value))} %"
            style: dict[str, Any] = {"ha": "left" if side < 0 else "right", "fontsize": 8, "color": ink}
            text = number if beyond else f"to {number}"
            axes.text(side * 0.96 * limit, place - 0.1, text, va="bottom", **style)


def draw_key(figure: Figure, rows: Sequence[ForestRow], banded: bool) -> None:
    """Explain the colours, markers and lines that are drawn, below the panel."""
    dot: dict[str, Any] = {"marker": "o", "markersize": 6, "linewidth": 2}
    handles: list[Line2D | Patch] = [
        Line2D([], [], color=ink, label=word, **dot)
        for word, ink in COLOURS.items()
        if any(row.verdict == word for row in rows)
    ]
    if any(row.ink == INK and row.verdict != SAME for row in rows):
        handles.append(Line2D([], [], color=INK, label="interval excludes 0", **dot))
    if any(row.ink == SOFT for row in rows):
        other = "undecided" if len(handles) and rows[0].verdict else "interval includes 0"
        handles.append(Line2D([], [], color=SOFT, markerfacecolor="white", label=other, **dot))
    if banded:
        handles.append(Patch(color=PALE, label="the same within δ"))
    if any(row.detectable is not None for row in rows):
        mark: dict[str, Any] = {"color": GOLD, "marker": "|", "linestyle": "", "markersize": 11}
        handles.append(Line2D([], [], label="least change that this study detects", **mark))
    figure.legend(handles=handles, loc="outside lower center", ncols=3 if len(handles) > 4 else len(handles) or 1)


def percent_ticks(limit: float, count: int = 6) -> np.ndarray:
    """Relative changes to mark on an axis of ln ratio from −limit to limit: round shares, or powers of two if wide."""
    if limit > np.log(2):
        most = int(limit / np.log(2))
        step = 1 + most // max(1, count // 2)
        powers = np.arange(step, most + 1, step)
        return 2.0 ** np.concatenate([-powers[::-1], [0], powers]) - 1
    marks = MaxNLocator(count, steps=[1, 2, 2.5, 5, 10]).tick_values(np.expm1(-limit), np.expm1(limit))
    return np.asarray([mark for mark in marks if mark > -1 and abs(np.log1p(mark)) <= limit])
