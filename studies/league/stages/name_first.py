"""Name the arm that came first, by the first endpoint, beside the control."""

from studies.league.standings import first
from unequal.comparison.confirmation import CONTROL, FIRST
from unequal.comparison.results import read_found
from unequal.comparison.settings import Comparison, Pilot, shortened
from unequal.pipeline.stage import Run, stage
from unequal.settings.recipe import Recipe
from unequal.settings.strict import StageSettings


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    blocks: Comparison
    pilot: Pilot
    recipes: dict[str, Recipe]


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write which arms are trained once more, and by which recipes."""
    found = read_found(run.input("results/endpoints"), settings.blocks)
    told = {}
    for place, arm in ((FIRST, first(found)), (CONTROL, found.blocks.repeated.control)):
        recipe = shortened(settings.recipes[arm], 1.0, settings.pilot.tried(arm))
        told[place] = {"arm": arm, "recipe": recipe.model_dump(mode="json")}
    run.metrics("results/first.json", told)


if __name__ == "__main__":
    main()
