"""Say what the study can see and what it will take, by its pilot."""

from typing import Literal

from unequal.comparison.pilot import pilot_document
from unequal.comparison.pilot_results import read_arms, read_bases
from unequal.comparison.settings import Comparison, Effects, Pilot
from unequal.comparison.speed import piloted
from unequal.pipeline.stage import Run, stage
from unequal.settings.strict import StageSettings


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    blocks: Comparison
    pilot: Pilot
    effects: Effects


@stage(Settings)
def main(run: Run, settings: Settings, kind: Literal["plans", "recipes"]) -> None:
    """Write what the pilot tells of arms that are plans, carried out on bases, or recipes."""
    folder, plan, pilot = run.input("results/pilot"), settings.blocks, settings.pilot
    bases = read_bases(folder, plan, pilot) if kind == "plans" else []
    arms = read_arms(folder, plan, pilot, begin_fresh=not bases)
    if plan.speed is not None:
        # Any training of the block will do: what it adds to all others is the block's share.
        references = [next(iter(block.values())) for block in arms[plan.speed.baseline]]
        for endpoint in plan.speed.by:
            pairs = {arm: zip(own, references, strict=True) for arm, own in arms.items()}
            arms = {arm: [piloted(*pair, endpoint) for pair in own] for arm, own in pairs.items()}
    run.metrics("results/pilot.json", pilot_document(plan, pilot, bases, arms, settings.effects))


if __name__ == "__main__":
    main()
