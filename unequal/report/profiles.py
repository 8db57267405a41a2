"""Loss profiles of several models side by side: in three spaces, above their floor, and the slots made of them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from unequal.diffusion.schedule import NoiseSchedule
from unequal.files import rounded
from unequal.measures.loss_profile import (
    SPACES,
    LossProfile,
    excess_loss,
    excess_profile,
    relative_change,
    space_factor,
)
from unequal.report.figures import (
    GOLD,
    INK,
    PALE,
    RED,
    SOFT,
    binned,
    curve,
    log_bins,
    log_edges,
    log_timesteps,
)
from unequal.report.page import Table
from unequal.report.tables import label, plus_minus
from unequal.timesteps.partition import Partition

Losses = Mapping[str, Mapping[str, np.ndarray]]

#: Space of a loss → how people write it.
SYMBOLS = {"epsilon": "ε", "v": "v", "x0": "x0"}
SET_NAMES = {"total": "equal loss", "excess": "equal excess loss"}
GREEN = "#2a9d74"
#: Paper 1, Table 1: guided diffusion on ImageNet-256, counted from 0.
TABLE_1 = Partition.of_lengths([5, 8, 10, 14, 19, 26, 38, 57, 100, 723])

SPACES_CAPTION = (
    "Losses in three spaces",
    "The same losses told as mean squared errors of ε, of v and of x0, which differ by a factor of the timestep alone. "
    "The base on training and held-out images, the floor of its training loss and what it loses beyond (excess), "
    "± 1 standard error; grey: the other models' training loss. What falls far below the base is cut off.",
)
SLOTS_CAPTION = (
    "Slots of equal loss and of equal excess loss",
    "Either set splits all timesteps into ranges with the same sum of the base's training loss, or of what it exceeds "
    "its floor by: the loss that training can still take away.",
)


def space_profiles(figure: Figure, losses: Losses, floor: np.ndarray, schedule: NoiseSchedule) -> None:
    """Loss over timesteps in ε-, v- and x0-space: the base, its floor and excess, the other models behind them."""
    for axes, space in zip(figure.subplots(1, len(SPACES)), SPACES, strict=True):
        draw_space(axes, losses, floor, space_factor(space, schedule)[:, None])
        axes.set_title(f"mean squared error of {SYMBOLS[space]}", fontsize=10, color=SOFT)
        log_timesteps(axes, schedule.timesteps)
        axes.set_xlabel("timestep + 1, log scale")
    figure.axes[0].legend(loc="lower left", fontsize=8)


def draw_space(axes: Axes, losses: Losses, floor: np.ndarray, factor: np.ndarray) -> None:
    """One space, into which losses are brought by a factor [T, 1]."""
    base = losses["base"]
    for name in losses:
        if name != "base":
            curve(axes, factor * losses[name]["train"], band=False, color="#c3c9cf", linewidth=0.8)
    if floor.size:
        curve(axes, factor * floor, color=GOLD, linewidth=1.4, label="floor")
        curve(axes, factor * (base["train"] - floor), color=GREEN, linewidth=1.4, label="excess")
    curve(axes, factor * base["holdout"], color=RED, linewidth=1.2, label="held-out images")
    curve(axes, factor * base["train"], color=INK, linewidth=1.6, label="training images")
    axes.set_yscale("log")
    shown = binned(factor * base["train"], log_bins(len(floor)))[1].mean
    axes.set_ylim(shown.min() / 20, shown.max() * 3)


def all_sets(sets: Mapping[str, Partition], timesteps: int) -> dict[str, Partition]:
    """Sets of slots by their names, the paper's beside them where it has as many slots of as many timesteps."""
    named = {SET_NAMES[loss]: slots for loss, slots in sets.items()}
    comparable = timesteps == TABLE_1.timesteps and all(len(slots) == len(TABLE_1) for slots in sets.values())
    return named | ({"paper 1, Table 1": TABLE_1} if comparable else {})


def slot_strips(figure: Figure, sets: Mapping[str, Partition], timesteps: int) -> None:
    """A strip a set of slots, cut where its slots end."""
    axes = figure.subplots()
    named = all_sets(sets, timesteps)
    for row, slots in enumerate(named.values()):
        for number, slot in enumerate(slots, 1):
            low, high = log_edges(slot)
            axes.barh(row, high - low, left=low, height=0.7, color=PALE if number % 2 else "#d9dde1")
            axes.text(np.sqrt(low * high), row, str(number), ha="center", va="center", color=INK, fontsize=9)
    axes.set_yticks(range(len(named)), list(named))
    axes.invert_yaxis()
    axes.grid(False)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    log_timesteps(axes, timesteps)


def slots_table(sets: Mapping[str, Partition], losses: Losses, floor: np.ndarray) -> Table:
    """Sets of slots side by side, and the share of the excess that the slots of equal loss hold."""
    base, named = losses["base"]["train"], all_sets(sets, len(floor))
    columns = {name: [f"{first} – {last}" for first, last in slots] for name, slots in named.items()}
    if floor.size and "total" in sets:
        columns["excess in slots of equal loss"] = percents(sets["total"].shares_of(excess_loss(base, floor)))
    if "excess" in sets:
        columns["loss in slots of equal excess"] = percents(sets["excess"].shares_of(LossProfile.of(base).mean))
    rows = [(str(i), *cells) for i, cells in enumerate(zip(*columns.values(), strict=True), 1)]
    return Table("Slots", ("slot", *columns), rows, "Timesteps count from 0 (data) to T − 1 (noise).")


def percents(shares: np.ndarray) -> list[str]:
    """Shares as text."""
    return [f"{100 * share:.1f} %" for share in shares]


def losses_table(losses: Losses, floor: np.ndarray, schedule: NoiseSchedule) -> Table:
    """How unequal timesteps are to every model, and how much of its loss lies above the floor."""
    factors = [space_factor(space, schedule) for space in SPACES]
    columns = ["model", *(f"largest over smallest, {symbol}" for symbol in SYMBOLS.values())]
    columns += ["mean training loss, ε", "mean held-out loss, ε", *(["mean excess, ε"] if floor.size else [])]
    rows = []
    for name, splits in losses.items():
        profiles = [LossProfile.of(splits["train"]), LossProfile.of(splits["holdout"])]
        profiles += [excess_profile(splits["train"], floor)] if floor.size else []
        ratios = [f"{profiles[0].scaled(factor).largest_over_smallest:,.0f}" for factor in factors]
        rows.append((label(name), *ratios, *(plus_minus(*mean_of(profile)) for profile in profiles)))
    return Table("Losses", columns, rows, LOSSES_NOTE)


LOSSES_NOTE = (
    "Largest over smallest: of the mean training losses of single timesteps, on the same images and noise for every "
    "model. Means over all timesteps ± standard error over draws. Excess: training loss minus the floor, the loss of "
    "the best possible denoiser of the training images."
)


def mean_of(profile: LossProfile) -> tuple[float, float]:
    """Mean over timesteps and its standard error."""
    return float(profile.mean.mean()), float(np.sqrt((profile.stderr**2).sum()) / len(profile.stderr))


def comparison_rows(losses: Losses, floor: np.ndarray) -> list[dict[str, Any]]:
    """A row a timestep: the floor, every model's excess over it, and the paired change from the base's loss."""
    base = losses["base"]["train"]
    profiles: dict[str, LossProfile] = {}
    if floor.size:
        profiles["floor"] = LossProfile.of(floor)
        profiles |= {f"{name}_excess": excess_profile(splits["train"], floor) for name, splits in losses.items()}
    others = {name: splits["train"] for name, splits in losses.items() if name != "base"}
    profiles |= {f"{name}_change": changes_by_timestep(base, after) for name, after in others.items()}
    columns = {name: profile.mean for name, profile in profiles.items()}
    columns |= {f"{name}_stderr": profile.stderr for name, profile in profiles.items()}
    return [{"timestep": t} | {name: rounded(column[t]) for name, column in columns.items()} for t in range(len(base))]


def changes_by_timestep(before: np.ndarray, after: np.ndarray) -> LossProfile:
    """Relative change of every timestep's loss, [T], over paired draws [T, n]."""
    found = [relative_change(before[t : t + 1], after[t : t + 1]) for t in range(len(before))]
    return LossProfile(*np.transpose(found))
