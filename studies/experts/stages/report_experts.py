"""Experts beside models that were trained on, arm by arm and group by group, on one page."""

from unequal.comparison.groups import besides, group_rows, group_table
from unequal.comparison.report import PageSettings, Study, write_page
from unequal.pipeline.stage import Run, stage


@stage(PageSettings)
def main(run: Run, settings: PageSettings) -> None:
    """Write the study's page, its findings and what its README says of them."""
    study = Study.read(run.input, settings)
    told = besides(study.found, run.input("results/trainings"))
    tables = [group_table(told, settings.blocks.repeated.control)]
    write_page(run, study, tables, rows={"groups": group_rows(told)})


if __name__ == "__main__":
    main()
