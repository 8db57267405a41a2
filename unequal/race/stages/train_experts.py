"""Train a variant of experts at a learning rate: a base from a block's weights, and a model per group of timesteps."""

from typing import Any

from unequal.data.prepared import PreparedData
from unequal.errors import Diverged
from unequal.pipeline.stage import Run, stage
from unequal.race.experts import train_experts
from unequal.race.results import write_collapse
from unequal.race.training import ArmSettings, recipe_at


@stage(ArmSettings)
def main(
    run: Run,
    settings: ArmSettings,
    rung: str,
    arm: str,
    rate: str,
    block: int,
    share: str,
    name: str,
    after: str,
) -> None:
    """Train an arm of experts."""
    run.input(after)
    data = PreparedData.open(run.input("artifacts/data"))
    folder = run.output(f"artifacts/race/models/{rung}/{name}")
    recipe = recipe_at(settings.arm.of(settings.recipe), float(rate), float(share))
    costs: dict[str, Any]
    try:
        costs = train_experts(run, settings, recipe, data, f"race/{rung}/{name}", block, folder)
    except Diverged as error:
        costs = write_collapse(folder, error)
    run.metrics(f"results/race/trainings/{rung}/{name}.json", costs)
