"""What the study shows beside what all studies in blocks show: where in time learning is easy, and what is drawn."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from studies.curricula.ease import Ease
from unequal.report.drawing import log_timesteps
from unequal.report.formatting import with_prefix
from unequal.report.page import Drawing
from unequal.report.pipeline_pictures import sampler_probabilities
from unequal.settings.recipe import Recipe
from unequal.settings.schedule import Schedule

EASE = (
    "Is learning easier near noise?",
    "Means over trainings with uniform timesteps, a line a snapshot: the share of the way from the loss of a network "
    "that answers 0 to the loss at the end, and the loss over that at the end.",
)
SAMPLERS = (
    "What is drawn",
    "How often each arm draws a timestep, as a multiple of uniform drawing. Of a sampler that changes, the paler lines "
    "are the start, a quarter, half and three quarters of the change.",
)


def drawings(told: Sequence[Ease], recipes: Mapping[str, Recipe], schedule: Schedule) -> list[Drawing]:
    """The pictures."""
    return [
        Drawing("ease", (8.5, 6.4), partial(ease, told=told), *EASE),
        Drawing("samplers", (8.5, 4.4), partial(samplers, recipes=recipes, schedule=schedule), *SAMPLERS),
    ]


def ease(figure: Figure, told: Sequence[Ease]) -> None:
    """Two panels over timesteps, a line a snapshot."""
    above, below = figure.subplots(2, 1, sharex=True)
    for shade, one in zip(np.linspace(0.3, 1, len(told)), told, strict=True):
        style = {"color": "#1f4e79", "alpha": shade, "label": f"{with_prefix(one.images)} images"}
        above.plot(one.middle, 100 * one.done.mean(0), **style)
        below.plot(one.middle, np.exp(one.excess.mean(0)), **style)
    above.set_ylabel("way done, in %")
    below.set_ylabel("loss over that at the end")
    log_timesteps(below, int(told[0].middle[-1]))
    above.legend(loc="best", ncols=2)


def samplers(figure: Figure, recipes: Mapping[str, Recipe], schedule: Schedule) -> None:
    """The samplers of the recipes, those that draw alike once."""
    tables, first = schedule.tables(), dict[str, str]()
    for name, recipe in recipes.items():
        first.setdefault(recipe.sampler.model_dump_json(), name)
    sampler_probabilities(
        figure, {name: recipes[name].sampler.build(tables).over_training() for name in first.values()}
    )
