"""All recipes in one table and one picture, and what fresh seeds say of the first of them, on one page."""

from pathlib import Path

from studies.league.figures import league
from studies.league.standings import First
from studies.league.tables import league_table
from unequal.comparison.confirmation import confirmed, read_again
from unequal.comparison.report import PageSettings, Study, write_page
from unequal.comparison.tables import confirmation_rows, confirmation_table
from unequal.pipeline.stage import Run, stage
from unequal.report.effective_weighting import emphasis, learned_by
from unequal.settings.recipe import Recipe
from unequal.settings.schedule import Schedule
from unequal.settings.strict import key


class Settings(PageSettings):
    """Keys of params.yaml that this stage reads."""

    schedule: Schedule
    recipes: dict[str, Recipe]
    fresh: tuple[int, ...] = key("confirmation.seeds")


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write the study's page, its findings and what its README says of them."""
    study = Study.read(run.input, settings)
    found, judged = study.found, study.judged
    named = First.load(run.input("results/first.json"))
    again = read_again(run.input("results/again"), named.arms, settings.fresh, settings.blocks)
    told = confirmed(found, again)
    schedule = settings.schedule.tables()
    trainings = run.input("results/trainings")
    # Recipes from fresh weights go by nothing that was measured: no file of a sampler is asked for.
    files = [f"block_{block}.json" for block in settings.blocks.seeds]
    weights = {
        name: emphasis(name, one, schedule, Path(), learned=learned_by([trainings / name / file for file in files]))
        for name, one in settings.recipes.items()
    }
    tables = [
        league_table(judged, found, weights, schedule.snr.log().numpy()),
        confirmation_table(told, found, again, "the league", "first weights"),
    ]
    rows = {"confirmation": confirmation_rows(told, again)}
    write_page(run, study, tables, [league(judged, found, weights, schedule)], rows, confirmed=told)


if __name__ == "__main__":
    main()
