"""Effective weighting of timesteps by a recipe: the density of each timestep times the weight of its error.

The product determines the expected gradient. Weights refer to errors of the velocity ε − x0, whatever a recipe
predicts, since only in this space the weights of both ends are bounded. If a weight is learned or follows the losses,
only the density is known in advance, and of a learned density only its initial state; tables that a training has
learned replace them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from unequal.diffusion.predictions import epsilon_error_factor
from unequal.diffusion.schedule import NoiseSchedule
from unequal.report.drawing import SOFT
from unequal.settings.recipe import Recipe
from unequal.timesteps.building import build_sampler, sampler_inside
from unequal.timesteps.densities import edges_of
from unequal.timesteps.partition import TimestepSet
from unequal.timesteps.weights import weight_table
from unequal.training.timestep_files import read_sampler

NOTHING: Mapping[str, np.ndarray] = MappingProxyType({})
#: Columns of the picture.
COLUMNS = ("density", "weight of an error of the velocity", "density × weight")
COLOURS = ("#1b3a57", "#c8553d", "#2a9d74", "#d99a2b", "#8a5bb5", "#2f9fd8", "#7a6a3a", "#c77dba")
#: Smallest value of a curve that is shown, as a share of the highest.
SHOWN = 1e-4


class EffectiveWeighting(NamedTuple):
    """Density p_t of a recipe, and the weight of the velocity's error, with mean 1 under p: [T] each.

    Timesteps that are not drawn have no weight; None: it is not known.
    """

    name: str
    density: np.ndarray
    weight: np.ndarray | None

    @property
    def product(self) -> np.ndarray | None:
        """Share of the weight at each timestep, [T], with sum 1; None where the weight is not known."""
        return None if self.weight is None else self.density * self.weight

    @property
    def line(self) -> str:
        """Line of text: name, density at both ends, and mean timestep by density and by product."""
        shares = [self.density] if self.product is None else [self.density, self.product]
        means = " ".join(f"{one @ np.arange(len(one)):12.1f}" for one in shares)
        ends = f"{self.density[0]:10.3g} {self.density[-1]:10.3g}"
        return f"{self.name:24} {ends} {means}"


def effective_weighting(
    name: str,
    recipe: Recipe,
    schedule: NoiseSchedule,
    samplers: Path,
    inside: TimestepSet | None = None,
    learned: Mapping[str, np.ndarray] = NOTHING,
) -> EffectiveWeighting:
    """Effective weighting of a recipe at the end of its training.

    Args:
        name, recipe: name and settings of the recipe.
        schedule: noise schedule of its model.
        samplers: folder of the files that `build_sampler` writes, for samplers that follow measurements.
        inside: timesteps of its model; None: all.
        learned: tables that its training learned: `density` and `importance`, and `factors` of its weight, [T] each.

    Raises:
        UserError: the sampler draws inside a range that is not given, or its file is missing.
    """
    if inside is not None:
        sampler = sampler_inside(recipe.sampler, inside, schedule)
    elif recipe.sampler.needs:
        sampler = read_sampler(samplers / f"{name}.json", schedule)
    else:
        sampler = build_sampler(recipe.sampler, schedule)
    density = learned.get("density", sampler.probabilities)
    importance = learned.get("importance", sampler.importance(sampler.horizon))
    # A learned density is known in advance only if weights compensate it.
    drawn = "density" in learned or sampler.unbiased or not (sampler.learns or sampler.refresh_images)
    weighted = "factors" in learned or recipe.loss_weight.fixed
    if not drawn or not weighted or recipe.mixing is not None:
        return EffectiveWeighting(name, density, None)
    to_epsilon = (epsilon_error_factor(one, schedule.snr) for one in ("velocity", recipe.prediction))
    weight = weight_table(recipe.loss_weight, recipe.prediction, schedule.snr) * next(to_epsilon) / next(to_epsilon)
    counted = np.where(density > 0, weight.numpy() * importance * learned.get("factors", 1.0), 0)
    return EffectiveWeighting(name, density, counted / (density @ counted))


def draw(figure: Figure, weightings: Sequence[EffectiveWeighting], schedule: NoiseSchedule) -> None:
    """Draw density, weight and their product, over t above and over λ below, with one curve per recipe."""
    panels = figure.subplots(2, len(COLUMNS), sharex="row")
    log_snr, cells = schedule.snr.log().numpy(), -np.diff(edges_of(schedule, "closed").log_snr)
    # The outermost cells have no finite width in λ, since they reach to its ends.
    cells[[0, -1]] = np.nan
    places = (np.arange(schedule.timesteps), np.ones(schedule.timesteps) / schedule.timesteps), (log_snr, cells)
    for row, (x, widths) in zip(panels, places, strict=True):
        for one, colour in zip(weightings, COLOURS * len(weightings), strict=False):
            heights = (one.density / widths, one.weight, None if one.product is None else one.product / widths)
            for axes, height in zip(row, heights, strict=True):
                if height is not None:
                    axes.plot(x, np.where(height > 0, height, np.nan), color=colour, linewidth=1.6, label=one.name)
        for axes in row:
            limit_from_below(axes)
    for axes, title in zip(panels[0], COLUMNS, strict=True):
        axes.set_title(title, fontsize=10, color=SOFT)
        axes.set_xlabel("timestep t (0: data, T − 1: noise)")
    for axes in panels[1]:
        axes.set_xlabel("λ = ln SNR, falling towards the noise")
    panels[1][0].invert_xaxis()
    panels[0][0].set_ylabel("times uniform over t")
    panels[1][0].set_ylabel("per unit of λ")
    handles, names = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4)


def limit_from_below(axes: Axes) -> None:
    """Set a log scale that ends at the share SHOWN of the highest point."""
    heights = [np.asarray(line.get_ydata()) for line in axes.get_lines()] or [np.array([0.1, 1.0])]
    highest = float(np.nanmax(heights))
    axes.set_yscale("log")
    axes.set_ylim(max(float(np.nanmin(heights)), SHOWN * highest) / 1.5, 1.5 * highest)
