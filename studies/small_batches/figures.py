"""Pictures of the study of small batches."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from studies.small_batches.findings import BatchFindings, order
from unequal.reporting.figures import GOLD, INK, PALE, RED, SOFT, colour, log_scale
from unequal.reporting.tables import label

CAPTIONS = {
    "fid_batches": (
        "FID over the batch",
        "For as many images each. Lines: means over training seeds, points: single trainings. "
        "Squares: accumulated parts.",
    ),
    "cosines": (
        "Do the gradients of slots oppose each other?",
        "Cosine between the mean gradients of two slots ± jackknife error, free of the bias that noise gives to "
        "lengths. Blue: a step for one helps the other; red: it harms it.",
    ),
    "gradient_lengths": (
        "Where the scatter of a batch comes from",
        "Above: root mean square of single images' gradients, and length of their mean, slot by slot. Below: the share "
        "of each slot in all timesteps, in the second moment of gradients at uniform timesteps, and in the draws that "
        "have the least variance.",
    ),
    "variance_fid": (
        "Gradient variance and FID",
        "One point a sampler and batch: variance of its gradients and mean FID, both of those of uniform timesteps at "
        "the same batch; bars: standard deviation over training seeds of the difference. Samplers with another "
        "expected gradient are left out.",
    ),
}
MARKERS = ("o", "s", "^", "D", "v")


def fid_batches(figure: Figure, found: BatchFindings) -> None:
    """FID over the images of a step, a line a sampler."""
    axes = figure.subplots()
    for recipe in found.recipes:
        batches = sorted((batch for name, batch in found.fids if name == recipe and order(batch)[1] == 1), key=order)
        ink, sizes = colour(recipe), [order(one)[0] for one in batches]
        emphasis = 2.4 if recipe == found.baseline else 1.4
        means = [found.mean(recipe, one) for one in batches]
        axes.plot(sizes, means, color=ink, linewidth=emphasis, label=label(recipe))
        for size, batch in zip(sizes, batches, strict=True):
            values = found.fids[recipe, batch]
            axes.plot([size] * len(values), values, linestyle="", marker="o", markersize=2.4, color=ink, alpha=0.6)
    parts = [one for one in found.baseline_batches if order(one)[1] > 1]
    for one in parts:
        values = found.fids[found.baseline, one]
        shown: dict[str, Any] = {
            "marker": "s",
            "markersize": 5,
            "markerfacecolor": "none",
            "color": colour(found.baseline),
        }
        axes.plot(
            [order(one)[0] * 1.04] * len(values), values, linestyle="", label=f"{label(found.baseline)}, {one}", **shown
        )
    sizes = sorted({order(batch)[0] for _, batch in found.fids})
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(sizes))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([str(size) for size in sizes])
    log_scale(axes, "{:g}")
    axes.set_xlabel("images an optimizer step")
    axes.set_ylabel("FID (lower is better)")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def cosines(figure: Figure, found: BatchFindings) -> None:
    """The matrix of cosines; what is lost in noise is left blank."""
    axes = figure.subplots()
    table = np.array(found.gradients["cosines"], dtype=float)
    errors = np.array(found.gradients["cosines_stderr"], dtype=float)
    image = axes.imshow(table, cmap="RdBu", vmin=-1, vmax=1, aspect="auto")
    for (i, j), value in np.ndenumerate(table):
        if i != j and np.isfinite(value):
            text = f"{value:+.2f}\n± {errors[i, j]:.2f}".replace("-", "−")
            axes.text(
                j, i, text, ha="center", va="center", fontsize=7.5, color="white" if abs(value) > 0.65 else "#222222"
            )
    places, names = range(len(table)), [str(slot) for slot in range(1, len(table) + 1)]
    axes.set_xticks(places, names)
    axes.set_yticks(places, names)
    axes.set_xlabel("slot (1: data, last: noise)")
    axes.set_ylabel("slot")
    axes.grid(False)
    axes.tick_params(length=0)
    bar = figure.colorbar(image, ax=axes, pad=0.01, aspect=30)
    bar.set_label("cosine of mean gradients")
    bar.outline.set_visible(False)


def gradient_lengths(figure: Figure, found: BatchFindings) -> None:
    """Lengths of gradients by slot above, shares of slots below."""
    facts = found.gradients
    upper, lower = figure.subplots(2, 1, sharex=True)
    second, mean = np.array(facts["second_moment"], float), np.array(facts["mean_square"], float)
    slots = np.arange(1, len(second) + 1)
    upper.plot(slots, np.sqrt(second), marker="o", color=INK, label="single images, √E‖g‖²")
    upper.plot(slots, np.sqrt(np.where(mean > 0, mean, np.nan)), marker="o", color=RED, label="their mean, ‖E g‖")
    log_scale(upper, "{:g}")
    upper.set_ylabel("length of gradients")
    upper.legend(loc="best")
    share = found.slots.shares
    least = share * np.sqrt(second)
    bars = (
        (share, PALE, "of timesteps"),
        (share * second / (share * second).sum(), SOFT, "of E‖g‖² at uniform timesteps"),
        (least / least.sum(), GOLD, "of draws with the least variance"),
    )
    for place, (height, ink, text) in zip((-0.27, 0, 0.27), bars, strict=True):
        lower.bar(slots + place, 100 * height, width=0.26, color=ink, edgecolor="#999999", linewidth=0.4, label=text)
    lower.set_ylabel("share in %")
    lower.set_xlabel("slot (1: data, last: noise)")
    lower.set_xticks(slots)
    lower.legend(loc="best")


def variance_fid(figure: Figure, found: BatchFindings) -> None:
    """Relative FID over relative gradient variance."""
    axes = figure.subplots()
    axes.axhline(1, color=SOFT, linewidth=1)
    axes.axvline(1, color=SOFT, linewidth=1)
    for marker, batch in zip(MARKERS, found.batches, strict=False):
        plain = np.array(found.fids[found.baseline, batch])
        for recipe in found.comparable:
            if recipe == found.baseline:
                continue
            ratio = np.array(found.fids[recipe, batch]) / plain
            spread = ratio.std(ddof=1) if len(ratio) > 1 else 0.0
            place = found.row(recipe, order(batch)[0])["relative_variance"]
            shown: dict[str, Any] = {"color": colour(recipe), "markersize": 6, "capsize": 2, "linewidth": 1}
            name = label(recipe) if batch == found.batches[0] else None
            axes.errorbar(place, ratio.mean(), yerr=spread, fmt=marker, label=name, **shown)
    for marker, batch in zip(MARKERS, found.batches, strict=False):
        axes.plot([], [], linestyle="", marker=marker, color=SOFT, label=f"batch {batch}")
    axes.set_xlabel("variance of the gradient, of uniform's")
    axes.set_ylabel("FID, of uniform's")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
