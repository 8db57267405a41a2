"""Say what the study can see and what it will take, by its pilot."""

from typing import Literal

from studies.blocks.piloting import pilot_document
from studies.blocks.settings import Blocks, Pilot
from unequal.files import read_json
from unequal.pipeline.stage import Run, stage
from unequal.settings.strict import StageSettings


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    blocks: Blocks
    pilot: Pilot


@stage(Settings)
def main(run: Run, settings: Settings, kind: Literal["plans", "recipes"]) -> None:
    """Write what the pilot tells of arms that are plans, carried out on bases, or recipes."""
    folder, pilot = run.input("results/pilot"), settings.pilot
    bases = [read_json(folder / f"base/block_{seed}.json") for seed in pilot.seeds] if kind == "plans" else []
    arms = {
        arm: [read_json(folder / f"{arm}/block_{seed}.json")["tries"] for seed in pilot.seeds] for arm in pilot.arms
    }
    run.metrics("results/pilot.json", pilot_document(settings.blocks, pilot, bases, arms))


if __name__ == "__main__":
    main()
