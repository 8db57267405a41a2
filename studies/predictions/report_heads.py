"""Scores of three heads of one network in other combinations, over all blocks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from studies.predictions.measure_heads import COMBINATIONS
from unequal.comparison.figures import WIDTH, middles
from unequal.comparison.report import Extras, Judged, ReportSettings, write_report
from unequal.comparison.results import ComparisonResults, file_of
from unequal.diffusion.predictions import HEADS
from unequal.pipeline.stage import Run, stage
from unequal.report.drawing import INK, colour, log_scale, log_timesteps
from unequal.report.formatting import label, mean_and_sd, percent
from unequal.report.heads import SYMBOLS, stack
from unequal.report.page import Drawing, Table
from unequal.runtime.files import read_json, rounded
from unequal.settings.strict import key
from unequal.settings.values import Name


@dataclass(frozen=True)
class Heads:
    """Figures of an arm in every block, contents of results/heads/<arm>/block_<seed>.json."""

    arm: str
    blocks: Sequence[Mapping[str, Any]]

    def figures_of(self, combination: str, figure: str) -> list[float]:
        """A figure of a combination, one a block."""
        return [one["combinations"][combination][figure] for one in self.blocks]

    def wins(self, figure: str) -> np.ndarray:
        """A figure of who had the smallest error, [blocks, …]; NaN where no image came."""
        rows = [one["wins"][figure] for one in self.blocks]
        return np.array([without_none(row) for row in rows], dtype=float)

    @property
    def starts(self) -> list[int]:
        return list(self.blocks[0]["wins"]["starts"])

    def curve(self, head: int) -> np.ndarray:
        """Losses of ε of a head over the bins of all arms' curves, [blocks, bins]."""
        return np.array([one["curves"][head] for one in self.blocks])


def without_none(row: Any) -> Any:
    """Rows of shares as numbers."""
    return [[np.nan] * len(HEADS) if one is None else one for one in row] if isinstance(row, list) else row


def read_heads(folder: Path, arms: Sequence[str], blocks: Sequence[int]) -> list[Heads]:
    """Read the figures of some arms. Raises UserError where a file is missing."""
    return [Heads(arm, [read_json(folder / file_of(arm, block)) for block in blocks]) for arm in arms]


#: Figures of every combination.
FIGURES = ("fid", "loss_over_timesteps")
#: How people read the combinations.
NAMES = {
    "profile": "the head with the least error",
    "blend": "blend of least variance",
    "blend_diagonal": "blend by errors alone",
} | {head: f"{symbol} alone" for head, symbol in SYMBOLS.items()}


def combinations_table(found: Sequence[Heads]) -> Table:
    """A row an arm and combination."""
    columns = ("heads of", "combination", "FID", "held-out loss of ε, over timesteps")
    rows = [
        (label(one.arm), NAMES[name], *(mean_and_sd(one.figures_of(name, figure)) for figure in FIGURES))
        for one in found
        for name in COMBINATIONS
    ]
    note = (
        "Of the same trained networks, without words; ± is the standard deviation over blocks. Combinations are "
        "chosen by one half of the held-out images, by errors, and these figures are of the "
        "other half: FIDs are not on the scale of the tables above, whose reference is all of them."
    )
    return Table("What three heads are in other combinations", columns, rows, note)


def winners_table(found: Sequence[Heads]) -> Table:
    """A row an arm."""
    columns = ("heads of", *(f"{SYMBOLS[head]} is best" for head in HEADS), "timesteps that keep their leader")
    rows = [
        (
            label(one.arm),
            *(percent(share) for share in one.wins("shares").mean(0)),
            percent(float(one.wins("kept_lead").mean())),
        )
        for one in found
    ]
    note = (
        "Of all images of the training, how many each head had the smallest error of; and the share of the timesteps "
        "that the same head leads in the first twentieth of the training and in the last."
    )
    return Table("Which head is best", columns, rows, note)


def combination_rows(found: Sequence[Heads]) -> list[dict[str, Any]]:
    """A row a block and combination."""
    return [
        {"arm": one.arm, "block": block["block"], "combination": name}
        | {figure: rounded(value) for figure, value in block["combinations"][name].items()}
        for one in found
        for block in one.blocks
        for name in COMBINATIONS
    ]


#: Ratios beyond these are cut off.
LIMITS = (0.5, 4.0)
#: Parts of a training at which winners are shown.
MOMENTS = {"first": "first twentieth", "last": "last twentieth"}


def drawings(results: ComparisonResults, heads: Sequence[Heads], alone: Mapping[str, str]) -> list[Drawing]:
    """All pictures of the study's own; `alone` are the arms that predict one thing, by what they predict."""
    return [
        Drawing(
            "errors",
            (WIDTH, 2.6 + 2.6 * ((len(heads) + 1) // 2)),
            partial(errors, results=results, heads=heads, alone=alone),
            "Where each prediction errs less",
            "Held-out loss of ε over that of the network that predicts ε alone, of the same draws: of networks that "
            "predict one thing, and of the heads of networks that predict all three. Geometric mean over blocks ± its "
            "standard error; what lies beyond the picture is cut off.",
        ),
        Drawing(
            "winners",
            (WIDTH, 0.8 + 2.2 * len(heads)),
            partial(winners, heads=heads, timesteps=results.timesteps),
            "Which head wins how often",
            "Share of the training images at which each head had the smallest error, over timesteps, mean over blocks; "
            "white: no image came. Where the smallest loss decides, only the winner of an image learns from it.",
        ),
    ]


def errors(figure: Figure, results: ComparisonResults, heads: Sequence[Heads], alone: Mapping[str, str]) -> None:
    """A panel for networks of one head, and one for each of three."""
    sources = {"networks of one prediction": {head: results.curves(arm) for head, arm in alone.items()}} | {
        f"heads of {label(one.arm)}": {head: one.curve(place) for place, head in enumerate(HEADS)} for one in heads
    }
    grid = figure.subplots((len(sources) + 1) // 2, 2, sharex=True, sharey=True, squeeze=False)
    for axes, (source, curves) in zip(grid.flat, sources.items(), strict=False):
        for head in HEADS:
            ratio_curve(axes, middles(results), curves[head], results.curves(alone["epsilon"]), head)
        axes.axhline(1, color=INK, linewidth=1)
        axes.set_ylim(*LIMITS)
        log_scale(axes, "{:g} ×")
        log_timesteps(axes, results.timesteps)
        axes.set_title(source, loc="left", fontsize=10)
    for axes in list(grid.flat)[len(sources) :]:
        axes.set_visible(False)
    for axes in grid[:, 0]:
        axes.set_ylabel("loss of ε over that\nof the network of ε")
    for axes in list(grid.flat)[len(sources) - 2 : len(sources)]:
        axes.tick_params(labelbottom=True)
    grid[0, 0].legend(loc="upper left")


def ratio_curve(axes: Axes, middle: np.ndarray, losses: np.ndarray, others: np.ndarray, head: str) -> None:
    """Losses [blocks, bins] over others'."""
    logs = np.log(losses) - np.log(others)
    mean, error = logs.mean(0), logs.std(0, ddof=1) / np.sqrt(len(logs))
    axes.plot(middle, np.exp(mean), color=colour(head), linewidth=1.6, label=SYMBOLS[head])
    axes.fill_between(middle, np.exp(mean - error), np.exp(mean + error), color=colour(head), alpha=0.2, linewidth=0)


def winners(figure: Figure, heads: Sequence[Heads], timesteps: int) -> None:
    """A row an arm, a column a part of its training."""
    grid = figure.subplots(len(heads), len(MOMENTS), sharex=True, sharey=True, squeeze=False)
    for row, one in zip(grid, heads, strict=True):
        for axes, (moment, text) in zip(row, MOMENTS.items(), strict=True):
            stack(axes, np.array([*one.starts, timesteps]) + 1.0, one.wins(moment).mean(0))
            log_timesteps(axes, timesteps)
            axes.set_ylim(0, 1)
            axes.grid(False)
            axes.set_title(f"{label(one.arm)}, {text}", loc="left", fontsize=10)
        row[0].set_ylabel("share of images")
    handles, texts = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, texts, loc="outside upper right", ncols=len(HEADS))


class Settings(ReportSettings):
    tried: tuple[Name, ...] = key("study.tried")


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write the comparison's page, with the heads of the trained networks in other combinations."""
    folder, recipes = run.input("results/heads"), settings.recipes
    # The first arm of each prediction is the plain one; others differ from it in what is asked about.
    single = settings.comparison.arms.fresh
    alone = {str(head): next(arm for arm in single if recipes[arm].prediction == head) for head in HEADS}

    def own(judged: Judged) -> Extras:
        heads = read_heads(folder, settings.tried, judged.results.plan.seeds)
        tables = [combinations_table(heads), winners_table(heads)]
        return Extras(tables, drawings(judged.results, heads, alone), {"combinations": combination_rows(heads)})

    write_report(run, settings, own)
