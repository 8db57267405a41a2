"""Where one expert hands over to another, in all its units, what came of it, and of each expert, on one page."""

from studies.boundary.borders import borders, steps_of
from studies.boundary.figures import sweep
from studies.boundary.first import First
from studies.boundary.tables import border_rows, border_table, range_table
from unequal.comparison.confirmation import confirmed, read_again
from unequal.comparison.groups import besides, group_rows
from unequal.comparison.report import PageSettings, Study, write_page
from unequal.comparison.tables import confirmation_rows, confirmation_table
from unequal.pipeline.stage import Run, stage
from unequal.settings.evaluation import Sampling
from unequal.settings.groups import Plan
from unequal.settings.schedule import FlowSchedule
from unequal.settings.strict import key


class Settings(PageSettings):
    """Keys of params.yaml that this stage reads."""

    schedule: FlowSchedule
    sampling: Sampling
    plans: dict[str, Plan]
    fresh: tuple[int, ...] = key("confirmation.seeds")


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write the study's page, its findings and what its README says of them."""
    study = Study.read(run.input, settings)
    found, judged = study.found, study.judged
    schedule, sampling = settings.schedule, settings.sampling
    told = borders(settings.plans, schedule, steps_of(sampling, schedule))
    inside = besides(found, run.input("results/trainings"))
    named = First.load(run.input("results/first.json"))
    again = read_again(run.input("results/again"), named.arms, settings.fresh, settings.blocks)
    words = confirmed(found, again)
    tables = [
        border_table(judged, found, told, schedule, sampling),
        confirmation_table(words, found, again, "the sweep", "bases"),
        range_table(inside, found, schedule),
    ]
    rows = {"borders": border_rows(told, found, schedule), "groups": group_rows(inside)}
    rows |= {"confirmation": confirmation_rows(words, again)}
    write_page(run, study, tables, [sweep(judged, found, told)], rows, confirmed=words)


if __name__ == "__main__":
    main()
