"""Where one expert hands over to another, in all its units, and what came of it, on one page."""

from studies.blocks.findings import read_found
from studies.blocks.judgement import families
from studies.blocks.page import write_page
from studies.blocks.pilot_findings import PilotFigures
from studies.blocks.settings import Blocks
from studies.boundary.borders import borders, steps_of
from studies.boundary.figures import sweep
from studies.boundary.tables import border_rows, border_table
from unequal.artifacts.figures import read_figures
from unequal.pipeline.stage import Run, stage
from unequal.settings.evaluation import Sampling
from unequal.settings.plan import Plan
from unequal.settings.schedule import FlowSchedule
from unequal.settings.strict import StageSettings


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    blocks: Blocks
    schedule: FlowSchedule
    sampling: Sampling
    plans: dict[str, Plan]


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write the study's page, its findings and what its README says of them."""
    found, pilot = read_found(run.input("results/endpoints"), settings.blocks), run.input("results/pilot.json")
    judged = families(found, read_figures(pilot, PilotFigures))
    told = borders(settings.plans, settings.schedule, steps_of(settings.sampling, settings.schedule))
    tables = [border_table(judged, found, told, settings.schedule, settings.sampling)]
    write_page(run, found, pilot, tables, [sweep(judged, found, told)], {"borders": border_rows(told)})


if __name__ == "__main__":
    main()
