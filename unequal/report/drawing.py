"""Drawing kit of all pictures: one style, colours, axes, labels and rows of images."""

import io
from collections.abc import Callable, Mapping, Sequence
from colorsys import hsv_to_rgb
from pathlib import Path
from typing import Any
from zlib import crc32

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, NullFormatter
from matplotlib.transforms import Bbox

from unequal.evaluation.loss_profile import LossProfile
from unequal.runtime.files import write_bytes
from unequal.timesteps.partition import Partition, TimestepRange

DPI = 160
STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.labelsize": 10,
    "axes.edgecolor": "#888888",
    "axes.labelcolor": "#222222",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "legend.frameon": False,
    "legend.fontsize": 9,
}
INK, RED, PALE, SOFT = "#1b3a57", "#c8553d", "#f3f1ea", "#777777"
#: Colours of known names. `RED` and the green of better verdicts are no model's of the default page.
COLOURS = {
    "base": INK,
    "longer": "#2f7fb8",
    "stratified": "#1aa6b7",
    "mixed": "#a8326f",
    "experts_unpruned": "#8a5bb5",
    "experts_pruned": "#7a8b2a",
    "epsilon": "#1f4e79",
    "v_prediction": "#d99a2b",
    "sample": "#c8553d",
}
GOLD = "#d99a2b"
#: Number of points of a curve over timesteps; more would only show the noise of the draws.
BINS = 80
COLUMNS = 16
#: Positions of a name relative to its point, in typographic points; nearer and simpler ones are tried first.
LABEL_SHIFTS = [
    (distance * np.cos(np.radians(angle)), distance * np.sin(np.radians(angle)))
    for distance in range(10, 160, 6)
    for angle in (0, 180, 90, 270, 30, 330, 150, 210)
]
#: Distance in typographic points below which a name needs no line to its point.
NEAR = 17
#: Least ratio that a log scale spans → numbers that are written in each decade; the first entry that applies is used.
LOG_TICKS = {10: (1, 2, 5), 2.5: (1, 1.5, 2, 3, 4, 5, 7), 0: (1, 1.1, 1.2, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)}
TIMESTEP_LABEL = "timestep, counted from 1 (data) to T (noise), log scale"


def save(path: Path, size: tuple[float, float], draw: Callable[[Figure], None]) -> None:
    """Draw a picture of `size` inches into a PNG file; the same figures give the same bytes."""
    with matplotlib.style.context(["default", STYLE]):  # independent of the user's matplotlibrc
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure)
        content = io.BytesIO()
        figure.savefig(
            content, format="png", dpi=DPI, metadata={"Software": None}, bbox_inches="tight", pad_inches=0.08
        )
    write_bytes(path, content.getvalue())


def colour(name: str) -> str:
    """A model's colour, the same in every picture; of an unknown name a hue by its letters."""
    if name.startswith("slot_"):
        return to_hex(matplotlib.colormaps["YlOrBr"](0.4 + 0.045 * min(int(name.removeprefix("slot_")), 12)))
    model, _, group = name.partition("_group_")
    if group:  # an expert is paler than the one before
        red, green, blue = (1 - 0.75 ** int(group) * (1 - part) for part in to_rgb(colour(model)))
        return to_hex((red, green, blue))
    return COLOURS.get(name) or to_hex(hsv_to_rgb(crc32(name.encode()) / 2**32, 0.55, 0.62))


def log_bins(timesteps: int, bins: int = BINS) -> np.ndarray:
    """Borders [k + 1] of bins of timesteps, equally wide on a log scale, each with at least one timestep."""
    return np.unique(np.geomspace(1, timesteps + 1, bins + 1).round().astype(int)) - 1


def binned(losses: np.ndarray, borders: np.ndarray) -> tuple[np.ndarray, LossProfile]:
    """Middle of each bin (counted from 1), and mean loss of its timesteps with standard error, all [k]."""
    by_timestep = LossProfile.of(losses)
    lengths = np.diff(borders)
    mean = np.add.reduceat(by_timestep.mean, borders[:-1]) / lengths
    stderr = np.sqrt(np.add.reduceat(by_timestep.stderr**2, borders[:-1])) / lengths
    middle = np.sqrt((borders[:-1] + 1.0) * borders[1:])
    return middle, LossProfile(mean, stderr)


def curve(axes: Axes, losses: np.ndarray, band: bool = True, **style: Any) -> None:
    """Draw a loss over timesteps with a band of ± 1 standard error; bins within two errors of 0 are left out."""
    x, profile = binned(losses, log_bins(len(losses)))
    known = profile.mean > 2 * profile.stderr
    axes.plot(x, np.where(known, profile.mean, np.nan), **style)
    if band:
        low, high = profile.mean - profile.stderr, profile.mean + profile.stderr
        axes.fill_between(
            x, np.maximum(low, profile.mean / 10), high, where=known, color=style["color"], alpha=0.2, linewidth=0
        )


def log_edges(one: TimestepRange) -> tuple[float, float]:
    """Ends of a range on an axis of timesteps counted from 1, on which the first timestep is no wider than the rest."""
    return max(one.first + 0.5, 0.9), one.last + 1.5


def slot_bands(axes: Axes, slots: Partition | None) -> None:
    """Shade every other slot, if there are any, and number all of them at the upper edge."""
    if slots is None:
        return
    for number, slot in enumerate(slots, 1):
        low, high = log_edges(slot)
        if number % 2:
            axes.axvspan(low, high, color=PALE, linewidth=0, zorder=0)
        axes.text(np.sqrt(low * high), 1.01, str(number), transform=axes.get_xaxis_transform(), ha="center", color=SOFT)
    axes.text(0, 1.065, "slots", transform=axes.transAxes, color=SOFT, fontsize=9)


def log_timesteps(axes: Axes, timesteps: int) -> None:
    """Set a log scale of timesteps counted from 1, with plain numbers."""
    axes.set_xscale("log")
    axes.set_xlim(0.9, timesteps * 1.06)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlabel(TIMESTEP_LABEL)


def log_scale(axes: Axes, form: str) -> None:
    """Set a log scale of y with numbers at 1, 2 and 5 of each decade, and at more if the current limits are narrow."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=next(ticks for span, ticks in LOG_TICKS.items() if high > span * low)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: form.format(value)))
    axes.yaxis.set_minor_formatter(NullFormatter())


def prefixed(value: float, _: int | None = None) -> str:
    """Format a tick's number with an SI prefix from a thousand on, without one below: 0.8 does not become `800 m`."""
    return EngFormatter(sep=" ")(value) if abs(value) >= 1000 else f"{value:g}"


def place_labels(axes: Axes, points: Sequence[tuple[float, float, float]], names: Sequence[tuple[str, str]]) -> None:
    """Write a name next to each point such that it covers neither points nor other names; distant names get a line.

    Args:
        points: x, y and the error of y.
        names: text and colour of each name.
    """
    figure: Any = axes.figure
    renderer = figure.canvas.get_renderer()
    # Names are placed in pixels, so the layout of the axes is computed now and fixed.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    frame = axes.get_window_extent(renderer)
    taken = [marked(axes, *point) for point in points]
    # From top to bottom, so that neighbours move apart in one direction.
    for (x, y, _), (name, ink) in sorted(zip(points, names, strict=True), key=lambda one: -one[0][1]):
        for shift in LABEL_SHIFTS:
            side = "left" if shift[0] > 1 else "right" if shift[0] < -1 else "center"
            line = {"arrowstyle": "-", "color": "#bbbbbb", "linewidth": 0.8} if np.hypot(*shift) > NEAR else None
            style: dict[str, Any] = {
                "textcoords": "offset points",
                "ha": side,
                "va": "center",
                "color": ink,
                "fontsize": 9,
            }
            text = axes.annotate(name, (x, y), shift, arrowprops=line, zorder=1, **style)
            text.update_positions(renderer)
            box = Text.get_window_extent(text, renderer)
            if frame.contains(*box.min) and frame.contains(*box.max) and not box.count_overlaps(taken):
                taken.append(box)
                break
            text.remove()


def marked(axes: Axes, x: float, y: float, error: float) -> Bbox:
    """Area that a marker and its error bar cover, in pixels."""
    (_, low), (middle, high) = axes.transData.transform([(x, y - error), (x, y + error)])
    return Bbox.from_extents(middle - 9, low - 9, middle + 9, high + 9)


def picture_grid(figure: Figure, rows: Mapping[str, np.ndarray]) -> None:
    """Draw the first of each row's images [n, C, H, W] (uint8) side by side, after the row's name."""
    axes, shown = figure.subplots(), [images[:COLUMNS] for images in rows.values()]
    (height, width), columns = shown[0].shape[2:], max(map(len, shown))
    gap, beside = max(1, height // 8), max(1, width // 8)
    around = (0, 0), (0, gap), (0, beside)
    cells = np.stack([np.pad(one, ((0, columns - len(one)), *around), constant_values=255) for one in shown])
    wall = cells.transpose(0, 3, 1, 4, 2).reshape(len(shown) * (height + gap), columns * (width + beside), -1)
    axes.imshow(wall[:-gap, :-beside].squeeze(), cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    axes.set_yticks([height / 2 - 0.5 + i * (height + gap) for i in range(len(rows))], list(rows))
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.grid(False)
    axes.spines[:].set_visible(False)
