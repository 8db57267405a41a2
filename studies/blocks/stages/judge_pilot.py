"""Say what the study can see and what it will take, by its pilot."""

from typing import Literal

from studies.blocks.piloting import pilot_document
from studies.blocks.settings import Blocks, Pilot
from studies.blocks.speed import piloted
from unequal.errors import UserError
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
    plan, without = settings.blocks, {}
    if plan.speed is not None:
        # Any training of the block will do: what it adds to all others is the block's share.
        references = [next(iter(block.values())) for block in arms[plan.speed.baseline]]
        try:
            arms = {arm: [piloted(*pair) for pair in zip(own, references, strict=True)] for arm, own in arms.items()}
        except UserError as error:
            plan, without = plan.model_copy(update={"speed": None}), {"without_speed": str(error)}
    run.metrics("results/pilot.json", pilot_document(plan, pilot, bases, arms) | without)


if __name__ == "__main__":
    main()
