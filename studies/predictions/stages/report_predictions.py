"""Predictions beside each other, alone and as three heads, and where the heads' quality is lost, on one page."""

from studies.predictions import tables
from studies.predictions.figures import drawings
from studies.predictions.findings import read_heads
from studies.predictions.settings import Predictions
from unequal.comparison.report import PageSettings, Study, write_page
from unequal.diffusion.predictions import HEADS
from unequal.pipeline.stage import Run, stage
from unequal.settings.recipe import Recipe


class Settings(PageSettings):
    """Keys of params.yaml that this stage reads."""

    recipes: dict[str, Recipe]
    predictions: Predictions


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write the study's page, its findings and what its README says of them."""
    study = Study.read(run.input, settings)
    heads = read_heads(run.input("results/heads"), settings.predictions.tried, study.found.complete)
    # The first arm of each prediction is the plain one; others differ from it in what is asked about.
    alone = {
        str(head): next(arm for arm in settings.predictions.single if settings.recipes[arm].prediction == head)
        for head in HEADS
    }
    write_page(
        run,
        study,
        [tables.combinations_table(heads), tables.swaps_table(heads), tables.winners_table(heads)],
        drawings(study.found, heads, alone),
        {"combinations": tables.combination_rows(heads), "swaps": tables.swap_rows(heads)},
    )


if __name__ == "__main__":
    main()
