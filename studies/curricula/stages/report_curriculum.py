"""Arms beside uniform timesteps, how fast each is, and where in time learning is easy, on one page."""

from studies.blocks.findings import read_found
from studies.blocks.page import write_page
from studies.blocks.settings import Blocks
from studies.curricula.ease import eases
from studies.curricula.figures import drawings
from studies.curricula.tables import ease_table
from unequal.pipeline.stage import Run, stage
from unequal.settings.recipe import Recipe
from unequal.settings.schedule import Schedule
from unequal.settings.strict import StageSettings


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    blocks: Blocks
    schedule: Schedule
    recipes: dict[str, Recipe]


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write the study's page, its findings and what its README says of them."""
    found = read_found(run.input("results/endpoints"), settings.blocks)
    control = settings.blocks.repeated.control
    told = eases(list(found.trainings[control].values()))
    pictures = drawings(told, settings.recipes, settings.schedule)
    write_page(run, found, run.input("results/pilot.json"), [ease_table(told, control)], pictures)


if __name__ == "__main__":
    main()
