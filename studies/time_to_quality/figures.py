"""Time to quality as pictures."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from studies.time_to_quality.findings import Trial
from unequal.reporting.figures import colour, log_scale, sampler_probabilities
from unequal.reporting.page import Drawing
from unequal.reporting.tables import label
from unequal.settings.recipe import Recipe
from unequal.settings.schedule import Schedule

CURVES = ("FID along the training", "Lines are means over training seeds, points single trainings; log scale.")


SAMPLERS = (
    "Timestep samplers",
    "How often each recipe draws a timestep, as a multiple of uniform drawing. Of a sampler that changes, the paler "
    "lines are the start, a quarter, half and three quarters of the change.",
)


def drawings(
    trials: Mapping[tuple[str, str], Sequence[Trial]], recipes: Mapping[str, Recipe], schedule: Schedule
) -> list[Drawing]:
    """All pictures, in the order of the page; `recipes` are those of the grid."""
    return [
        Drawing("time_to_quality", (8.4, 4.6), partial(curves, trials=trials), *CURVES),
        Drawing("samplers", (8.4, 4.4), partial(samplers, recipes=recipes, schedule=schedule), *SAMPLERS),
    ]


def curves(figure: Figure, trials: Mapping[tuple[str, str], Sequence[Trial]]) -> None:
    """FID over images seen, a panel a batch: the mean of the seeds as a line, every seed as a point."""
    batches = list(dict.fromkeys(batch for _, batch in trials))
    panels: list[Axes] = list(figure.subplots(1, len(batches), sharey=True, squeeze=False)[0])
    for axes, batch in zip(panels, batches, strict=True):
        for (recipe, at), found in trials.items():
            if at == batch:
                mean, ink = np.mean([one.fid for one in found], 0), colour(recipe)
                axes.plot(found[0].images, mean, color=ink, linewidth=1.8, label=label(recipe))
                for one in found:
                    axes.plot(one.images, one.fid, linestyle="", marker="o", markersize=2.6, color=ink, alpha=0.6)
        log_scale(axes, "{:g}")
        axes.xaxis.set_major_formatter(EngFormatter(sep=" "))
        axes.set_xlabel("images seen")
        axes.set_title(f"batch {batch}", loc="left", fontsize=10)
    panels[0].set_ylabel("FID (lower is better)")
    # Below the panels: among the lines it would cover some.
    named = panels[0].get_legend_handles_labels()
    figure.legend(*named, loc="outside lower center", ncols=min(5, len(named[0])))


def samplers(figure: Figure, recipes: Mapping[str, Recipe], schedule: Schedule) -> None:
    """The samplers of the recipes, those that draw alike once."""
    tables, first = schedule.tables(), dict[str, str]()
    for name, recipe in recipes.items():
        first.setdefault(recipe.sampler.model_dump_json(), name)
    built = {name: recipes[name].sampler.build(tables).over_training() for name in first.values()}
    sampler_probabilities(figure, built)
