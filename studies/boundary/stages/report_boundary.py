"""Where one expert hands over to another, in all its units, what came of it, and of each expert, on one page."""

from studies.blocks.groups import besides, group_rows
from studies.blocks.page import PageSettings, Study, write_page
from studies.boundary.borders import borders, steps_of
from studies.boundary.figures import sweep
from studies.boundary.tables import border_rows, border_table, range_table
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
    schedule, sampling = settings.schedule, settings.sampling
    told = borders(settings.plans, schedule, steps_of(sampling, schedule))
    inside = besides(found, run.input("results/trainings"))
    tables = [border_table(judged, found, told, schedule, sampling), range_table(inside, found, schedule)]
    rows = {"borders": border_rows(told, found, schedule), "groups": group_rows(inside)}
    write_page(run, study, tables, [sweep(judged, found, told)], rows)


if __name__ == "__main__":
    main()
