"""Say what the study can see and what it will take, by its pilot."""

from typing import Literal

from studies.blocks.pilot_findings import read_arms, read_bases
from studies.blocks.piloting import pilot_document
from studies.blocks.settings import Blocks, Pilot
from unequal.pipeline.stage import Run, stage
from unequal.settings.strict import StageSettings


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    blocks: Blocks
    pilot: Pilot


@stage(Settings)
def main(run: Run, settings: Settings, kind: Literal["plans", "recipes"]) -> None:
    """Write what the pilot tells of arms that are plans, carried out on bases, or recipes."""
    folder, plan, pilot = run.input("results/pilot"), settings.blocks, settings.pilot
    bases = read_bases(folder, plan, pilot) if kind == "plans" else []
    arms = read_arms(folder, plan, pilot, begin_fresh=not bases)
    run.metrics("results/pilot.json", pilot_document(plan, pilot, bases, arms))


if __name__ == "__main__":
    main()
