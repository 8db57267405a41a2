"""Where one expert hands over to another, in all its units, and what came of it, on one page."""

from studies.blocks.page import PageSettings, Study, write_page
from studies.boundary.borders import borders, steps_of
from studies.boundary.figures import sweep
from studies.boundary.tables import border_rows, border_table
from unequal.pipeline.stage import Run, stage
from unequal.settings.evaluation import Sampling
from unequal.settings.plan import Plan
from unequal.settings.schedule import FlowSchedule


class Settings(PageSettings):
    """Keys of params.yaml that this stage reads."""

    schedule: FlowSchedule
    sampling: Sampling
    plans: dict[str, Plan]


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write the study's page, its findings and what its README says of them."""
    study = Study.read(run.input, settings)
    found, judged = study.found, study.judged
    told = borders(settings.plans, settings.schedule, steps_of(settings.sampling, settings.schedule))
    tables = [border_table(judged, found, told, settings.schedule, settings.sampling)]
    write_page(run, study, tables, [sweep(judged, found, told)], {"borders": border_rows(told)})


if __name__ == "__main__":
    main()
