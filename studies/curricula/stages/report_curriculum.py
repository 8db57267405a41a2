"""Arms beside uniform timesteps, how fast each is, and where in time learning is easy, on one page."""

from studies.curricula.ease import eases
from studies.curricula.figures import drawings
from studies.curricula.tables import ease_rows, ease_table
from unequal.comparison.report import PageSettings, Study, write_page
from unequal.pipeline.stage import Run, stage
from unequal.settings.recipe import Recipe
from unequal.settings.schedule import Schedule


class Settings(PageSettings):
    """Keys of params.yaml that this stage reads."""

    schedule: Schedule
    recipes: dict[str, Recipe]


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write the study's page, its findings and what its README says of them."""
    study = Study.read(run.input, settings)
    control = settings.blocks.repeated.control
    told = eases(list(study.found.trainings[control].values()))
    pictures = drawings(told, settings.recipes, settings.schedule)
    write_page(run, study, [ease_table(told, control)], pictures, {"ease": ease_rows(told)})


if __name__ == "__main__":
    main()
