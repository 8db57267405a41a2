"""The report's pictures: one function each, that draws measured figures; all share one style."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import SymLogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import EngFormatter, FuncFormatter
from matplotlib.transforms import Bbox

from unequal.loss_profile import LossProfile
from unequal.partition import flops_by_timestep
from unequal.reporting.tables import Change, Variant, label
from unequal.schedule import NoiseSchedule

DPI = 160
STYLE: dict[str, Any] = {
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
    "svg.hashsalt": "unequal",
}
INK, RED, GREY = "#1b3a57", "#c8553d", "#9a9a9a"
COLOURS = {
    "base": INK,
    "longer": "#2f7fb8",
    "stratified": "#2a9d74",
    "mixed": "#c8553d",
    "experts_unpruned": "#8a5bb5",
    "experts_pruned": "#c77dba",
}
OTHER_COLOURS = ("#5f6f7a", "#7a6a3a", "#3a7a78", "#7a3a5d")
SLOT_COLOUR = "#d99a2b"
#: Points of a curve over timesteps; more only shows the noise of the draws.
BINS = 80
COLUMNS = 16
TIMESTEP_LABEL = "timestep, counted from 1 (data) to T (noise), log scale"


def save(path: Path, size: tuple[float, float], draw: Callable[[Figure], None]) -> None:
    """Draw a picture of `size` inches into a PNG file; the same figures give the same bytes."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=DPI, metadata={"Software": None})


def colour(name: str) -> str:
    """A variant's colour, the same in every picture."""
    if name.startswith("slot_"):
        return SLOT_COLOUR
    return COLOURS.get(name) or OTHER_COLOURS[sum(map(ord, name)) % len(OTHER_COLOURS)]


def log_bins(timesteps: int, bins: int = BINS) -> np.ndarray:
    """Borders [k + 1] of bins of timesteps, equally wide on a log scale, each holding one timestep at least."""
    return np.unique(np.geomspace(1, timesteps + 1, bins + 1).round().astype(int)) - 1


def binned(losses: np.ndarray, borders: np.ndarray) -> tuple[np.ndarray, LossProfile]:
    """Middle of each bin (counted from 1) and the mean loss of its timesteps with standard error, all [k]."""
    by_timestep = LossProfile.of(losses)
    lengths = np.diff(borders)
    mean = np.add.reduceat(by_timestep.mean, borders[:-1]) / lengths
    stderr = np.sqrt(np.add.reduceat(by_timestep.stderr**2, borders[:-1])) / lengths
    middle = np.sqrt((borders[:-1] + 1.0) * borders[1:])
    return middle, LossProfile(mean, stderr)


def curve(axes: Axes, losses: np.ndarray, band: bool = True, **style: Any) -> None:
    """Draw a loss over timesteps, with a band of ± 1 standard error."""
    x, profile = binned(losses, log_bins(len(losses)))
    axes.plot(x, profile.mean, **style)
    if band:
        low, high = profile.mean - profile.stderr, profile.mean + profile.stderr
        axes.fill_between(x, np.maximum(low, profile.mean / 10), high, color=style["color"], alpha=0.2, linewidth=0)


def slot_bands(axes: Axes, slots: Sequence[tuple[int, int]]) -> None:
    """Shade every other slot and number all of them at the upper edge."""
    for number, (first, last) in enumerate(slots, 1):
        low, high = max(first + 0.5, 0.9), last + 1.5
        if number % 2:
            axes.axvspan(low, high, color="#f3f1ea", linewidth=0, zorder=0)
        axes.text(
            np.sqrt(low * high), 1.01, str(number), transform=axes.get_xaxis_transform(), ha="center", color="#777777"
        )
    axes.text(0, 1.065, "slots of equal loss", transform=axes.transAxes, color="#777777", fontsize=9)


def log_timesteps(axes: Axes, timesteps: int) -> None:
    """A log scale of timesteps counted from 1, with plain numbers."""
    axes.set_xscale("log")
    axes.set_xlim(0.9, timesteps * 1.06)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlabel(TIMESTEP_LABEL)


def loss_profile(
    figure: Figure,
    losses: Mapping[str, Mapping[str, np.ndarray]],
    floor: np.ndarray,
    slots: Sequence[tuple[int, int]],
) -> None:
    """Loss over timesteps: the base on training and held-out images, its floor, the other models behind them."""
    axes = figure.subplots()
    slot_bands(axes, slots)
    others = [name for name in losses if name != "base"]
    for i, name in enumerate(others):
        text = "other models, training" if i == 0 else None
        curve(axes, losses[name]["train"], band=False, color="#c3c9cf", linewidth=0.8, label=text)
    if floor.shape[1]:
        curve(axes, floor, color=SLOT_COLOUR, linewidth=1.5, label="floor: best possible on training images")
    curve(axes, losses["base"]["holdout"], color=RED, linewidth=1.4, label="base, held-out images")
    curve(axes, losses["base"]["train"], color=INK, linewidth=1.8, label="base, training images")
    axes.set_yscale("log")
    log_timesteps(axes, len(floor))
    axes.set_ylabel("loss: mean squared error of ε")
    axes.legend(loc="lower left")


def loss_changes(
    figure: Figure, losses: Mapping[str, Mapping[str, np.ndarray]], slots: Sequence[tuple[int, int]]
) -> None:
    """Loss of every further model over the base's, on the same draws, over timesteps."""
    axes = figure.subplots()
    slot_bands(axes, slots)
    base = losses["base"]["train"]
    borders = log_bins(len(base))
    x, before = binned(base, borders)
    for name in (name for name in losses if name != "base"):
        ratio = binned(losses[name]["train"], borders)[1].mean / before.mean
        slot = int(name.removeprefix("slot_")) if name.startswith("slot_") else None
        axes.plot(x, ratio, color=colour(name), linewidth=1.6 if slot is None else 0.9, label=label(name))
        if slot is not None:
            inside = (x >= slots[slot - 1][0] + 0.5) & (x <= slots[slot - 1][1] + 1.5)
            axes.plot(x[inside], ratio[inside], color=colour(name), linewidth=3.2, solid_capstyle="butt")
    axes.axhline(1, color=INK, linewidth=1)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} ×"))
    axes.yaxis.set_minor_formatter(FuncFormatter(lambda value, _: ""))
    log_timesteps(axes, len(base))
    axes.set_ylabel("training loss over the base's")
    axes.legend(loc="best", ncols=2)


def timestep_groups(figure: Figure, groups: Mapping[str, Any], shares: Sequence[float]) -> None:
    """SNR over timesteps with the groups, and below it the FLOPs that each timestep deserves and gets."""
    schedule = NoiseSchedule.named(groups["schedule"], groups["timesteps"])
    upper, lower = figure.subplots(2, 1, sharex=True)
    t = np.arange(schedule.timesteps)
    upper.plot(t, schedule.snr_db, color=INK, linewidth=1.8)
    upper.set_ylabel("SNR in dB")
    lower.plot(t, flops_by_timestep(schedule, groups["min_ratio"]), color=INK, linewidth=1.8, label="by SNR")
    for row, share in zip(groups["groups"], shares, strict=True):
        first, last, limit = row["first"], row["last"] + 1, row["limit_ratio"]
        named = {"limit": "limit of the group", "share": "its pruned model"} if row["group"] == 0 else {}
        lower.hlines(limit, first, last, color=SLOT_COLOUR, linewidth=2.4, label=named.get("limit"))
        lower.hlines(share, first, last, color=RED, linewidth=2.4, linestyle=(0, (2, 1)), label=named.get("share"))
        for axes in (upper, lower):
            if row["group"] % 2 == 0:
                axes.axvspan(first, last, color="#f3f1ea", linewidth=0, zorder=0)
        name = f"group {row['group']}" if len(groups["groups"]) <= 5 else str(row["group"])
        place = upper.get_xaxis_transform()
        upper.text((first + last) / 2, 1.02, name, transform=place, ha="center", color="#777777", fontsize=9)
    lower.set_ylabel("share of the base's FLOPs")
    lower.set_xlabel("timestep t (0: data, T − 1: noise)")
    lower.set_ylim(min(groups["min_ratio"], *shares) - 0.05, 1.05)
    lower.set_xlim(0, schedule.timesteps)
    lower.legend(loc="lower right")


def interference(figure: Figure, found: Sequence[Change], count: int) -> None:
    """Change of every slot's loss (columns) after training inside one (rows), in percent ± standard error."""
    axes = figure.subplots()
    rows = sorted({one.finetuned for one in found})
    table = np.array([[100 * one.change for one in found if one.finetuned == row] for row in rows])
    stderr = [[100 * one.stderr for one in found if one.finetuned == row] for row in rows]
    bound = max(10.0, float(np.abs(table).max()))
    image = axes.imshow(table, cmap="RdBu_r", norm=SymLogNorm(1, vmin=-bound, vmax=bound), aspect="auto")
    for (i, k), value in np.ndenumerate(table):
        pale = abs(float(image.norm(value)) - 0.5) > 0.36
        text = f"{value:+.{decimals(value)}f}\n± {stderr[i][k]:.{decimals(value)}f}".replace("-", "−")
        axes.text(k, i, text, ha="center", va="center", fontsize=8.5, color="white" if pale else "#222222")
    for i, row in enumerate(rows):
        axes.add_patch(Rectangle((row - 1.5, i - 0.5), 1, 1, fill=False, edgecolor="#111111", linewidth=2.2))
    axes.set_xticks(range(count), [str(slot) for slot in range(1, count + 1)])
    axes.set_yticks(range(len(rows)), [f"slot {row}" for row in rows])
    axes.set_xlabel("slot in which the loss is measured (1: data, last: noise)")
    axes.set_ylabel("trained on inside")
    axes.grid(False)
    axes.tick_params(length=0)
    bar = figure.colorbar(image, ax=axes, pad=0.01, aspect=30)
    bar.set_label("change of the loss in %")
    bar.outline.set_visible(False)


def decimals(value: float) -> int:
    """Decimals of a percentage that leave it three digits wide."""
    return 0 if abs(value) >= 100 else 1


def fid_scatter(figure: Figure, variants: Sequence[Variant], cost: str, text: str) -> None:
    """FID ± standard deviation of every variant against a cost (a field of Variant), each point with its name."""
    axes = figure.subplots()
    x = [float(getattr(variant, cost)) for variant in variants]
    for variant, place in zip(variants, x, strict=True):
        shown = {"color": colour(variant.name), "markersize": 7, "capsize": 3}
        axes.errorbar(place, variant.fid, yerr=variant.fid_sd, fmt="o", **shown)
    if max(one.fid for one in variants) > 10 * min(one.fid for one in variants):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.margins(x=0.16, y=0.14)
    axes.xaxis.set_major_formatter(EngFormatter(sep=" "))
    axes.set_xlabel(text)
    axes.set_ylabel("FID (lower is better)")
    place_labels(axes, [(place, one.fid, label(one.name), colour(one.name)) for place, one in zip(x, variants)])


def place_labels(axes: Axes, points: Sequence[tuple[float, float, str, str]]) -> None:
    """Write a name beside each point where it covers neither a point nor another name, with a line where it is far.

    Args:
        points: x, y, name and colour.
    """
    figure: Any = axes.figure
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    where = axes.transData.transform([(x, y) for x, y, _, _ in points])
    taken = [Bbox.from_extents(x - 9, y - 9, x + 9, y + 9) for x, y in where]
    frame = axes.get_window_extent(renderer)
    for (x, y, name, ink), dot in sorted(zip(points, where.tolist(), strict=True), key=lambda one: -one[1][1]):
        for distance, angle in ((d, a) for d in range(9, 160, 6) for a in (0, 180, 90, 270, 30, 150, 210, 330)):
            shift = distance * np.array([np.cos(np.radians(angle)), np.sin(np.radians(angle))])
            side = "left" if shift[0] > 1 else "right" if shift[0] < -1 else "center"
            line = {"arrowstyle": "-", "color": "#bbbbbb", "linewidth": 0.7, "shrinkB": 4} if distance > 20 else None
            text = axes.annotate(
                name, (x, y), shift, textcoords="offset points", ha=side, va="center", color=ink, fontsize=9,
                arrowprops=line,
            )
            box = text.get_window_extent(renderer) if line is None else Bbox(text.get_bbox_patch().get_window_extent(renderer)) if text.get_bbox_patch() else text.get_window_extent(renderer)
            if frame.contains(box.x0, box.y0) and frame.contains(box.x1, box.y1) and not box.count_overlaps(taken):
                taken.append(box)
                break
            text.remove()


def sampler_probabilities(figure: Figure, samplers: Mapping[str, np.ndarray], slots: Sequence[tuple[int, int]]) -> None:
    """How often each sampler draws a timestep, as a multiple of uniform."""
    axes = figure.subplots()
    slot_bands(axes, slots)
    timesteps = slots[-1][1] + 1
    for name, probabilities in samplers.items():
        x, height = np.arange(1, timesteps + 1), probabilities * timesteps
        axes.step(x, height, where="mid", color=colour(name), linewidth=1.8, label=label(name))
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} ×"))
    log_timesteps(axes, timesteps)
    axes.set_ylabel("probability over uniform")
    axes.legend(loc="upper right")


def sample_grid(figure: Figure, samples: Mapping[str, np.ndarray], real: np.ndarray) -> None:
    """Samples from the same noise: a row a variant, a column a noise; real images in the last row."""
    axes = figure.subplots()
    rows = [mosaic_row(images[:COLUMNS]) for images in (*samples.values(), real)]
    height = rows[0].shape[0]
    gap = max(1, height // 8)
    separator = np.full((gap, *rows[0].shape[1:]), 255, np.uint8)
    wall = np.concatenate([part for row in rows for part in (row, separator)][:-1])
    axes.imshow(wall, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    places = [height / 2 - 0.5 + i * (height + gap) for i in range(len(rows))]
    axes.set_yticks(places, [*map(label, samples), "real images"])
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.grid(False)
    axes.spines[:].set_visible(False)


def mosaic_row(images: np.ndarray) -> np.ndarray:
    """Images [n, C, H, W] side by side with gaps: [H, width, 3], or [H, width] where C is 1."""
    gap = max(1, images.shape[-1] // 8)
    padded = np.pad(images, ((0, 0), (0, 0), (0, 0), (0, gap)), constant_values=255)
    row = np.concatenate(list(padded.transpose(0, 2, 3, 1)), axis=1)[:, :-gap]
    return row[..., 0] if row.shape[-1] == 1 else row
