"""Ranking of variants with one control by an endpoint: the effective weighting of each, next to its results."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from unequal.comparison.confirmation import standings
from unequal.comparison.figures import ROW, WIDTH, forest_row
from unequal.comparison.judgement import Family
from unequal.comparison.results import ComparisonResults, file_of
from unequal.comparison.settings import Contrast
from unequal.comparison.tables import NAMES
from unequal.diffusion.schedule import NoiseSchedule
from unequal.report.drawing import INK
from unequal.report.effective_weighting import EffectiveWeighting, effective_weighting, learned_by
from unequal.report.forest import forest_key, forest_rows
from unequal.report.formatting import label, mean_and_sd, percent
from unequal.report.page import Drawing, Table
from unequal.settings.recipe import Recipe
from unequal.timesteps.densities import edges_of

#: Shares of a recipe's weight, counted from the data end: ends and median of its middle half.
MIDDLE = (0.25, 0.5, 0.75)
#: Share of its row that the highest curve fills, and share of the picture's width that the curves have.
FILLED, SHARE = 0.85, 1.4
TITLE, CAPTION = (
    "The ranking",
    "A row a recipe, the best by the first endpoint above. Left: density × weight of an error of the velocity, a unit "
    "of λ = ln SNR, falling towards the noise; of a learned weighting, its state at the end, mean over blocks; dotted: "
    "the density alone, where the weight is not known. Right: the change of every endpoint against the control with "
    "its 95 % interval; left is better, shaded: within δ.",
)


class Ranking:
    """Variants that are recipes and have one control, the best first.

    Args:
        families: judged comparisons, one per endpoint.
        results: the trainings.
        recipes: recipes of the variants, by name.
        schedule: noise schedule of their models.
        trainings: folder of the trainings' own figures, which hold learned weightings.

    Raises:
        UserError: a training's figures are missing.
    """

    def __init__(
        self,
        families: Sequence[Family],
        results: ComparisonResults,
        recipes: Mapping[str, Recipe],
        schedule: NoiseSchedule,
        trainings: Path,
    ) -> None:
        self.families, self.results, self.schedule = families, results, schedule
        plan = results.plan
        self.control = str(plan.control)
        shown = [arm for arm in plan.arms.all if arm != plan.repeated.arm]
        self.arms = [arm for arm, _ in standings(results, shown, next(iter(plan.endpoints)))]
        # Recipes from fresh weights depend on no measured profile, so no sampler file is needed.
        self.weights: dict[str, EffectiveWeighting] = {
            arm: effective_weighting(
                arm,
                recipes[arm],
                schedule,
                Path(),
                learned=learned_by([trainings / file_of(arm, block) for block in results.plan.seeds]),
            )
            for arm in self.arms
        }

    def table(self) -> Table:
        """Build the table, with one row per recipe."""
        endpoints = [one.endpoint for one in self.families]
        columns = ["recipe", "its weight lies at λ", *(NAMES[one] for one in endpoints)]
        columns += ["FID ± sd"] if "fid" in endpoints else []
        rows = [
            (f"{place}. {label(arm)}", middle_half(self.weights[arm], self.schedule), *self.cells(arm))
            for place, arm in enumerate(self.arms, 1)
        ]
        note = (
            f"In the order of {NAMES[next(iter(self.results.plan.endpoints))]}, which is no verdict: verdicts are of "
            f"comparisons with {label(self.control)}. λ = ln SNR: the median of how often a timestep is drawn times "
            "how much an error of the velocity counts there, and its middle half, from the noise end; of a learned "
            "weighting, its state at the end, mean over blocks. ± is the standard deviation over blocks."
        )
        return Table("The ranking", columns, rows, note)

    def cells(self, arm: str) -> Iterator[str]:
        """Yield a variant's changes from the control with their verdicts, and its FID."""
        for family in self.families:
            verdict = family.verdicts.get(Contrast(arm=arm, control=self.control))
            yield "the control" if verdict is None else f"{percent(verdict.change, sign=True)}: {verdict.word}"
        if any(one.endpoint == "fid" for one in self.families):
            yield mean_and_sd([one["endpoints"]["fid"] for one in self.results.trainings[arm].values()])

    def drawing(self) -> Drawing:
        """Picture of the recipes: effective weighting, and changes by endpoint."""
        return Drawing("ranking", (1.3 * WIDTH, 1.4 + 1.8 * ROW * len(self.arms)), self.draw, TITLE, CAPTION)

    def draw(self, figure: Figure) -> None:
        """Draw a panel of curves and one panel per endpoint, which share their rows."""
        ratios = [SHARE, *[1] * len(self.families)]
        left, *panels = figure.subplots(1, len(ratios), sharey=True, width_ratios=ratios)
        ridges(left, [self.weights[arm] for arm in self.arms], self.schedule)
        for axes, family in zip(panels, self.families, strict=True):
            contrasts = {place: Contrast(arm=arm, control=self.control) for place, arm in enumerate(self.arms)}
            rows = [(place, forest_row(family, one)) for place, one in contrasts.items() if one in family.verdicts]
            forest_rows(axes, rows, family.delta, ticks=2)
            axes.set_title(NAMES[family.endpoint].replace(", ", ",\n"), loc="left", fontsize=8)
            axes.set_xlabel("change")
        forest_key(
            figure, [[forest_row(family, one) for one in family.verdicts] for family in self.families], banded=True
        )
        left.set_yticks(range(len(self.arms)), [label(arm) for arm in self.arms])
        left.set_ylim(len(self.arms) - 0.4, -1.0)


def middle_half(one: EffectiveWeighting, schedule: NoiseSchedule) -> str:
    """Median and middle half of density × weight, in λ."""
    if one.product is None:
        return one.by
    log_snr = schedule.snr.log().numpy()
    high, middle, low = log_snr[np.searchsorted(np.cumsum(one.product), MIDDLE).clip(max=len(log_snr) - 1)]
    return f"{middle:.1f} ({low:.1f} … {high:.1f})".replace("-", "−")


def ridges(axes: Axes, weights: Sequence[EffectiveWeighting], schedule: NoiseSchedule) -> None:
    """Draw one curve per row, all on one scale."""
    log_snr, cells = schedule.snr.log().numpy(), -np.diff(edges_of(schedule, "closed").log_snr)
    # Unbounded densities pile up in the outermost cells, which end at the outermost timesteps: they are left out.
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
