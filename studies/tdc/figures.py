"""Pictures of the study tdc."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from studies.tdc.findings import LONGER, TDC, UNPRUNED, Found, PlanOutcome
from studies.tdc.tables import rounds_of, starts_of
from unequal.reporting.figures import FINE_TICKS, GOLD, INK, RED, SOFT, log_scale

Picture = tuple[tuple[float, float], Callable[[Figure, Found], None], str, str]
#: Shared plan → its colour; a question's own take theirs in turn.
COLOURS = {TDC: RED, UNPRUNED: "#8a5bb5", LONGER: "#2f7fb8"}
IN_TURN = (INK, GOLD, "#2a9d74", "#7a3a5d", "#2f9fd8", "#7a6a3a", "#c77dba", "#5f6f7a")
#: Budgets of stage 2, of the shared plans', by the last part of a plan's name.
SIZES = ("half", None, "double")


def plans(figure: Figure, found: Found) -> None:
    """FID of every plan, a row each, a point a training seed."""
    axes = figure.subplots()
    outcomes = list(found.outcomes.values())[::-1]
    for place, one in enumerate(outcomes):
        ink = colour_of(found, one)
        axes.plot(one.fids, [place] * len(one.fids), linestyle="", marker="o", markersize=4, color=ink, alpha=0.55)
        axes.plot([one.fid], [place], marker="|", markersize=15, markeredgewidth=2.2, color=ink)
    axes.axvline(found.base_fid, color=INK, linewidth=1.2, linestyle="--", label="base")
    axes.set_yticks(range(len(outcomes)), [one.label for one in outcomes])
    log_x(axes)
    axes.set_xlabel("FID (lower is better); bars: means over training seeds")
    axes.legend(loc="best")


def costs(figure: Figure, found: Found) -> None:
    """FID over the FLOPs of a step."""
    axes = figure.subplots()
    axes.axhline(found.base_fid, color=INK, linewidth=1, linestyle="--", label="base")
    for one in found.outcomes.values():
        spread = np.std(one.fids, ddof=1) if len(one.fids) > 1 else None
        style: dict[str, Any] = {
            "fmt": "o",
            "markersize": 6,
            "capsize": 2,
            "color": colour_of(found, one),
            "linewidth": 1,
        }
        axes.errorbar(found.share(one), one.fid, yerr=spread, label=one.label, **style)
    log_scale(axes, "{:g}")
    axes.set_xlabel("FLOPs of a step, of the base's, mean over timesteps")
    axes.set_ylabel("FID (lower is better)")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def over_k(figure: Figure, found: Found) -> None:
    """FID over k (paper 3, Fig. 6), with the FLOPs that it leaves."""
    axes = figure.subplots()
    outcomes = sorted([found[TDC], *found.own], key=lambda one: one.min_ratio)
    along(axes, [one.min_ratio for one in outcomes], outcomes, found, "TDC")
    axes.set_xlabel("k: the smallest model's FLOPs as a share of the base's")
    axes.legend(loc="upper center")
    other = axes.twinx()
    other.plot(
        [one.min_ratio for one in outcomes], [found.share(one) for one in outcomes], color=GOLD, marker=".", linewidth=1
    )
    other.set_ylabel("FLOPs of a step, of the base's (gold)")
    other.grid(False)


def over_groups(figure: Figure, found: Found) -> None:
    """FID over the number of groups (Table III)."""
    axes = figure.subplots()
    outcomes = sorted([found[LONGER], found[UNPRUNED], *found.own], key=lambda one: one.groups)
    counts = [one.groups for one in outcomes]
    along(axes, counts, outcomes, found, "experts without pruning; one group: the base trained on")
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(counts))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([str(count) for count in counts])
    axes.set_xlabel("groups, for as many images in all")


def along(axes: Axes, places: Sequence[float], outcomes: Sequence[PlanOutcome], found: Found, text: str) -> None:
    """FID along a number: single trainings, their means, and the base."""
    for place, one in zip(places, outcomes, strict=True):
        axes.plot([place] * len(one.fids), one.fids, linestyle="", marker="o", markersize=3.5, color=RED, alpha=0.5)
    axes.plot(places, [one.fid for one in outcomes], color=RED, linewidth=1.8, label=text)
    axes.axhline(found.base_fid, color=INK, linewidth=1, linestyle="--", label="base")
    log_scale(axes, "{:g}")
    axes.set_ylabel("FID (lower is better)")
    axes.legend(loc="best")


def over_images(figure: Figure, found: Found) -> None:
    """FID over images in all, those of the base among them (paper 3, Fig. 3)."""
    axes = figure.subplots()
    start = found.base_training["images_seen"]
    for shared in (LONGER, UNPRUNED, TDC):
        word = shared.split("/")[1]
        names = [shared if size is None else f"{word}_{size}" for size in SIZES]
        outcomes = [found[name] for name in names if name == shared or found.has(name)]
        images = [one.mean("images") for one in outcomes]
        axes.plot([start, *images], [found.base_fid, *(one.fid for one in outcomes)], color=COLOURS[shared])
        for place, one in zip(images, outcomes, strict=True):
            axes.plot([place] * len(one.fids), one.fids, linestyle="", marker="o", markersize=3, color=COLOURS[shared])
        axes.plot([], [], color=COLOURS[shared], marker="o", markersize=3, label=found[shared].label)
    axes.plot([start], [found.base_fid], marker="s", color=INK, linestyle="", label="base")
    log_scale(axes, "{:g}")
    axes.xaxis.set_major_formatter(EngFormatter())
    axes.set_xlabel("images in all, stage 1 and stage 2")
    axes.set_ylabel("FID (lower is better)")
    axes.legend(loc="best")


def rounds(figure: Figure, found: Found) -> None:
    """Losses of the proxy's candidates, round by round, a line a seed (paper 3, Fig. 5)."""
    axes = figure.subplots()
    losses, starts = rounds_of(found["proxy"]), starts_of(found["proxy"])
    numbers = np.arange(1, losses.shape[1] + 1)
    for seed, of_seed in enumerate(losses):
        ink = (RED, *IN_TURN)[seed % (1 + len(IN_TURN))]
        shift = 0.06 * (seed - (len(losses) - 1) / 2)
        for number, candidates in zip(numbers, of_seed, strict=True):
            axes.plot([number + shift] * len(candidates), candidates, linestyle="", marker="o", markersize=4, color=ink)
        if starts.size:
            style: dict[str, Any] = {"linestyle": "", "marker": "D", "markersize": 4, "markerfacecolor": "none"}
            axes.plot([shift] * starts.shape[1], starts[seed], color=ink, **style)
        first = starts[seed].min() if starts.size else np.inf
        best = np.minimum(np.minimum.accumulate(of_seed.min(axis=1)), first)
        axes.plot(numbers + shift, best, color=ink, linewidth=1.2, label=f"seed {seed}: least so far")
    axes.plot([], [], linestyle="", marker="D", markerfacecolor="none", color=SOFT, label="start: importance methods")
    axes.set_xticks([0, *numbers], ["start", *map(str, numbers)])
    axes.set_xlabel("round")
    axes.set_ylabel("loss before fine-tuning")
    axes.legend(loc="best")


def limits(figure: Figure, found: Found) -> None:
    """What each schedule allows and what its experts take, over timesteps."""
    axes = figure.subplots()
    for one in [found[TDC], *found.own]:
        table = one.experts[0]["groups"]
        edges = [group["first"] for group in table] + [table[-1]["last"] + 1]
        shares = [group["limit_ratio"] for group in table]
        axes.stairs(shares, edges, baseline=None, color=colour_of(found, one), linewidth=1.8, label=one.label)
    axes.set_ylim(0, 1.05)
    axes.set_xlabel("timestep")
    axes.set_ylabel("limit of FLOPs, of the base's")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def colour_of(found: Found, outcome: PlanOutcome) -> str:
    """A plan's colour, the same in every picture of a question."""
    place = [one.name for one in found.own].index(outcome.name) if outcome in found.own else 0
    return COLOURS.get(outcome.name) or IN_TURN[place % len(IN_TURN)]


def log_x(axes: Axes) -> None:
    """A log scale of x with plain numbers."""
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high > 10 * low else FINE_TICKS))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


#: File → size in inches, what draws it, heading, caption.
COMMON: dict[str, Picture] = {
    "plans": ((8.4, 4.2), plans, "FID of every plan", "Points: training seeds, all from one base. Dashed: that base."),
    "costs": (
        (8.8, 4.4),
        costs,
        "FID and FLOPs",
        "Bars: standard deviation over training seeds. Left and low is better.",
    ),
}
OWN: dict[str, dict[str, Picture]] = {
    "schedules": {
        "limits": (
            (8.8, 3.6),
            limits,
            "Who may take how much",
            "Limits of groups over the timesteps; the data are left.",
        )
    },
    "groups": {
        "over_groups": (
            (8.4, 4.2),
            over_groups,
            "FID over the number of groups",
            "All see as many images in all. The base itself has seen less.",
        )
    },
    "ratios": {
        "over_k": (
            (8.4, 4.2),
            over_k,
            "FID over k",
            "Red: FID, points are training seeds. Gold: what is left of the FLOPs.",
        )
    },
    "alone": {
        "rounds": (
            (8.4, 4.4),
            rounds,
            "The proxy's candidates, round by round",
            "Points: loss of a candidate. Lines: the least so far. Diamonds: what importance methods propose.",
        )
    },
    "budgets": {
        "over_images": (
            (8.4, 4.4),
            over_images,
            "FID over images in all",
            "Every point is a training of its own, with a learning rate that falls to its end.",
        )
    },
}


def pictures_of(question: str) -> dict[str, Picture]:
    """The pictures of a question's page, its own first."""
    return OWN.get(question, {}) | COMMON
