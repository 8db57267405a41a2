"""Set arms beside their controls, say what the study says of them, and show by what mechanism, on one page."""

from studies.small_batches import figures, tables
from studies.small_batches.densities import Densities
from studies.small_batches.findings import read_gradients, read_retrained
from studies.small_batches.settings import Retraining
from unequal.comparison.report import PageSettings, Study, write_page
from unequal.pipeline.stage import Run, stage
from unequal.settings.strict import key


class Settings(PageSettings):
    """Keys of params.yaml that this stage reads."""

    mechanism: tuple[int, ...]
    measured: tuple[str, ...] = key("gradients.arms")
    retraining: Retraining


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write the study's page, its findings and what its README says of them."""
    study = Study.read(run.input, settings)
    densities = Densities.load(run.input("results/densities.json"))
    gradients = read_gradients(run.input("results/gradients"), settings.measured, settings.mechanism)
    chosen, folders = settings.retraining, (run.input("results/retrained"), run.input("results/pictures_of"))
    retrained = read_retrained(*folders, chosen.arms, chosen.ways, settings.mechanism)
    write_page(
        run,
        study,
        [tables.gradients_table(gradients), tables.retrained_table(retrained)],
        figures.drawings(densities, gradients, retrained),
        {"gradients": tables.gradient_rows(gradients), "retrained": tables.retrained_rows(retrained)},
    )


if __name__ == "__main__":
    main()
