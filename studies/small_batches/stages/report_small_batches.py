"""Show arms next to their controls, and by what mechanism they differ, on one page."""

from studies.small_batches import figures, tables
from studies.small_batches.densities import Densities
from studies.small_batches.findings import read_gradients, read_retrained
from studies.small_batches.settings import Retraining
from unequal.comparison.report import Extras, Judged, ReportSettings, write_report
from unequal.pipeline.stage import Run, stage
from unequal.settings.strict import key


class Settings(ReportSettings):
    """Keys of params.yaml that this stage reads."""

    mechanism: tuple[int, ...]
    measured: tuple[str, ...] = key("gradients.arms")
    retraining: Retraining


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write the comparison's page, with gradients and the effects of further training."""
    densities = Densities.load(run.input("results/densities.json"))
    gradients = read_gradients(run.input("results/gradients"), settings.measured, settings.mechanism)
    chosen, folders = settings.retraining, (run.input("results/retrained"), run.input("results/pictures_of"))
    retrained = read_retrained(*folders, chosen.arms, chosen.ways, settings.mechanism)

    def own(judged: Judged) -> Extras:
        return Extras(
            [tables.gradients_table(gradients), tables.retrained_table(retrained)],
            figures.drawings(densities, gradients, retrained),
            {"gradients": tables.gradient_rows(gradients), "retrained": tables.retrained_rows(retrained)},
        )

    write_report(run, settings, own)


if __name__ == "__main__":
    main()
