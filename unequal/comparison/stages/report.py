"""Set the arms of a study beside their controls, from the endpoints of its trainings alone, on one page."""

from unequal.comparison.report import PageSettings, Study, write_page
from unequal.pipeline.stage import Run, stage


@stage(PageSettings)
def main(run: Run, settings: PageSettings) -> None:
    """Write the study's page, its findings and what its README says of them."""
    write_page(run, Study.read(run.input, settings))


if __name__ == "__main__":
    main()
