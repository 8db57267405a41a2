"""Say after how many images each recipe of the grid reached its baseline's quality, on one page."""

from functools import partial

from matplotlib.figure import Figure

from studies.time_to_quality.findings import (
    COLUMNS,
    Trial,
    baseline_rows,
    compare,
    curves,
    paper_speed_up,
    pays,
    rows,
    table_rows,
)
from unequal.data.prepared import PreparedData
from unequal.files import read_json
from unequal.pipeline.stage import Run, stage
from unequal.reporting.conditions import scoring_conditions
from unequal.reporting.figures import sampler_probabilities
from unequal.reporting.page import Drawing, Report, Table
from unequal.reporting.publish import publish
from unequal.settings.recipe import Recipe
from unequal.settings.schedule import Schedule
from unequal.settings.strict import StageSettings, key

TITLE = "Time to quality: does the curriculum, or the decay of momentum, pay?"
NOTE = (
    "± is the standard deviation over training seeds: other weights, other batches, other noise, on the same data. "
    "Recipe and baseline share their seeds, so their difference is judged in pairs. "
    "A seed that starts below the target at its first snapshot counts with that snapshot's images."
)
CURVES = ("FID along the training", "Lines are means over training seeds, points single trainings; log scale.")
SAMPLERS = (
    "Timestep samplers",
    "How often each recipe draws a timestep, as a multiple of uniform drawing. Of a sampler that changes, the paler "
    "lines are the start, a quarter, half and three quarters of the change.",
)


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    recipes: tuple[str, ...] = key("grid.recipes")
    batches: tuple[str, ...] = key("grid.batches")
    seeds: tuple[int, ...] = key("grid.seeds")
    baselines: dict[str, str] = key("time_to_quality.baselines")
    rivals: dict[str, str] = key("time_to_quality.rivals")
    schedule: Schedule
    all_recipes: dict[str, Recipe] = key("recipes")


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write the study's report."""
    data, folder = PreparedData.open(run.input("artifacts/data")), run.input("results/trials")
    facts = {
        (recipe, batch): [read_json(folder / f"{recipe}_batch_{batch}_seed_{seed}.json") for seed in settings.seeds]
        for batch in settings.batches
        for recipe in settings.recipes
    }
    trials = {name: [Trial.of(one) for one in found] for name, found in facts.items()}
    claimed, beside = (
        [compare(*pair, batch, trials) for batch in settings.batches for pair in pairs.items()]
        for pairs in (settings.baselines, settings.rivals)
    )
    compared, first = claimed + beside, next(iter(facts.values()))[0]
    report = Report(
        title=TITLE,
        lead=f"{len(trials)} recipes and batches, {len(settings.seeds)} training seeds each.",
        verdicts=[paper_speed_up(claimed), *map(pays, claimed)],
        note=NOTE,
        tables=[Table("Final FID and speed-up", COLUMNS, table_rows(compared), NOTE, baseline_rows(compared))],
        conditions=scoring_conditions(data.facts, first) | {"training seeds": ", ".join(map(str, settings.seeds))},
        drawings=[
            Drawing("time_to_quality", (8.4, 4.6), partial(curves, trials=trials), *CURVES),
            Drawing("samplers", (8.4, 4.4), partial(samplers_of, settings=settings), *SAMPLERS),
        ],
        rows={"time_to_quality": rows(compared)},
    )
    publish(run, report)


def samplers_of(figure: Figure, settings: Settings) -> None:
    """Draw the samplers of the recipes, those that draw alike once."""
    schedule = settings.schedule.tables()
    chosen = {name: settings.all_recipes[name].sampler for name in settings.recipes}
    first = {sampler.model_dump_json(): name for name, sampler in reversed(chosen.items())}
    built = {
        name: chosen[name].build(schedule).over_training()
        for name in sorted(first.values(), key=settings.recipes.index)
    }
    sampler_probabilities(figure, built)


if __name__ == "__main__":
    main()
