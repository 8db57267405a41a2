"""Experts beside models that were trained on, arm by arm and group by group, on one page."""

from studies.blocks.findings import read_found
from studies.blocks.page import write_page
from studies.blocks.settings import Blocks
from studies.experts.groups import besides, group_rows, group_table
from unequal.pipeline.stage import Run, stage
from unequal.settings.strict import StageSettings


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    blocks: Blocks


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write the study's page, its findings and what its README says of them."""
    found = read_found(run.input("results/endpoints"), settings.blocks)
    told = besides(found, run.input("results/trainings"))
    tables = [group_table(told, settings.blocks.repeated.control)]
    write_page(run, found, run.input("results/pilot.json"), tables, rows={"groups": group_rows(told)})


if __name__ == "__main__":
    main()
