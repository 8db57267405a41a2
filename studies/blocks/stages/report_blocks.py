"""Set the arms of a study beside their controls, from the endpoints of its trainings alone, on one page."""

from studies.blocks.findings import read_found
from studies.blocks.page import write_page
from studies.blocks.settings import Blocks
from unequal.pipeline.stage import Run, stage
from unequal.settings.strict import StageSettings


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    blocks: Blocks


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write the study's page, its findings and what its README says of them."""
    found = read_found(run.input("results/endpoints"), settings.blocks)
    write_page(run, found, run.input("results/pilot.json"))


if __name__ == "__main__":
    main()
