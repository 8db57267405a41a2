"""Say where each prediction errs less and whether three heads of one network pay, on one page."""

from collections.abc import Callable
from functools import partial
from typing import Any

from matplotlib.figure import Figure

from studies.predictions import figures
from studies.predictions.claims import verdicts
from studies.predictions.findings import HeadFindings, read_findings
from studies.predictions.tables import (
    crossover_rows,
    crossover_table,
    heads_table,
    score_rows,
    scores_table,
    together_table,
    win_rows,
)
from unequal.data.prepared import PreparedData
from unequal.pipeline.stage import Run, stage
from unequal.reporting.conditions import scoring_conditions
from unequal.reporting.page import Drawing, Report
from unequal.reporting.publish import publish
from unequal.settings.recipe import Recipe
from unequal.settings.schedule import Schedule
from unequal.settings.strict import StageSettings, key

TITLE = "Predictions: ε, v and x0, alone and as three heads of one network"
NOTE = (
    "± is the standard deviation over training seeds: other weights, other batches, other noise, on the same data. All "
    "trainings share their seeds, so differences are judged in pairs, and see as many images."
)
WIDE, TALL = (9.6, 4.4), (9.6, 6.4)


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    schedule: Schedule
    recipes: dict[str, Recipe]
    single: tuple[str, ...] = key("grid.recipes")
    batches: tuple[str, ...] = key("grid.batches")
    seeds: tuple[int, ...] = key("grid.seeds")
    mixed: tuple[str, ...] = key("predictions.mixed")
    draws: int = key("profile.images")


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write the study's report."""
    data = PreparedData.open(run.input("artifacts/data"))
    schedule = settings.schedule.tables()
    recipes = {name: settings.recipes[name] for name in (*settings.single, *settings.mixed)}
    found = read_findings(run.input, recipes, settings.batches[0], settings.seeds, schedule)
    report = Report(
        title=TITLE,
        lead=f"{len(recipes)} trainings, each from {len(found.seeds)} training seeds.",
        verdicts=verdicts(found),
        note=NOTE,
        tables=[scores_table(found), crossover_table(found), heads_table(found), together_table(found)],
        conditions=conditions(found, settings, data.facts),
        drawings=[Drawing(name, *drawn, *figures.CAPTIONS[name]) for name, drawn in pictures(found).items()],
        rows={"scores": score_rows(found), "crossovers": crossover_rows(found), "winners": win_rows(found)},
    )
    publish(run, report)


def conditions(found: HeadFindings, settings: Settings, data: dict[str, Any]) -> dict[str, str]:
    """What the figures mean nothing without, as name → text."""
    images = sorted({settings.recipes[name].images for name in (*settings.single, *settings.mixed)})
    return scoring_conditions(data, found.conditions) | {
        "training seeds": ", ".join(map(str, found.seeds)),
        "images a training": ", ".join(map(str, images)),
        "errors over timesteps": f"{settings.draws} draws of held-out images a timestep, the same for every training",
    }


def pictures(found: HeadFindings) -> dict[str, tuple[tuple[float, float], Callable[[Figure], None]]]:
    """Name → size in inches and what draws it, in the order of the page."""
    of_epsilon = "epsilon" in found.alone
    drawn: dict[str, tuple[tuple[float, float], Callable[[Figure], None]]] = {
        "scores": (TALL, partial(figures.scores, found=found)),
        **({"error_ratios": (WIDE, partial(figures.error_ratios, found=found))} if of_epsilon else {}),
        "winners": (TALL, partial(figures.winners, found=found)),
        **({"mixed_ratios": (WIDE, partial(figures.mixed_ratios, found=found))} if of_epsilon else {}),
        "heads_together": (TALL, partial(figures.heads_together, found=found)),
    }
    return drawn


if __name__ == "__main__":
    main()
