"""Name the arm that came first, by the first endpoint, beside the control."""

from studies.blocks.findings import read_found
from studies.blocks.settings import Blocks
from studies.league.standings import CONTROL, FIRST, first, standings
from unequal.pipeline.stage import Run, stage
from unequal.settings.strict import StageSettings


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    blocks: Blocks


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write the arms that are trained once more, and how all of them stand."""
    found = read_found(run.input("results/endpoints"), settings.blocks)
    named = {FIRST: first(found), CONTROL: settings.blocks.control}
    run.metrics("results/first.json", named | {"standings": dict(standings(found))})


if __name__ == "__main__":
    main()
