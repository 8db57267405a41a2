"""Say what the study can see and what it will take, by its pilot."""

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
def main(run: Run, settings: Settings) -> None:
    """Write what the pilot tells."""
    folder, pilot = run.input("results/pilot"), settings.pilot
    bases = [read_json(folder / f"base/block_{seed}.json") for seed in pilot.seeds]
    arms = {
        arm: [read_json(folder / f"{arm}/block_{seed}.json")["rates"] for seed in pilot.seeds] for arm in pilot.arms
    }
    run.metrics("results/pilot.json", pilot_document(settings.blocks, pilot, bases, arms))


if __name__ == "__main__":
    main()
