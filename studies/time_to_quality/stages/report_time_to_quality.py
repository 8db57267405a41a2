"""Say after how many images each recipe of the grid reached its baseline's quality, on one page."""

from studies.time_to_quality.claims import verdicts
from studies.time_to_quality.figures import drawings
from studies.time_to_quality.findings import Trial, compare
from studies.time_to_quality.tables import COLUMNS, baseline_rows, rows, table_rows
from unequal.data.prepared import PreparedData
from unequal.files import read_json
from unequal.pipeline.stage import Run, stage
from unequal.reporting.conditions import scoring_conditions
from unequal.reporting.page import Report, Table
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
    recipes = {name: settings.all_recipes[name] for name in settings.recipes}
    compared, first = claimed + beside, next(iter(facts.values()))[0]
    report = Report(
        title=TITLE,
        lead=f"{len(trials)} recipes and batches, {len(settings.seeds)} training seeds each.",
        verdicts=verdicts(claimed),
        note=NOTE,
        tables=[Table("Final FID and speed-up", COLUMNS, table_rows(compared), NOTE, baseline_rows(compared))],
        conditions=scoring_conditions(data.facts, first) | {"training seeds": ", ".join(map(str, settings.seeds))},
        drawings=drawings(trials, recipes, settings.schedule),
        rows={"time_to_quality": rows(compared)},
    )
    publish(run, report)


if __name__ == "__main__":
    main()
