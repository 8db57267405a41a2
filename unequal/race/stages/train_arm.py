"""Train a variant at a learning rate with a block's weights and draws, for a share of the images.

A collapse is an outcome, not an error.
"""

from unequal.comparison.training import costs_of
from unequal.data.prepared import PreparedData
from unequal.errors import Diverged
from unequal.pipeline.stage import Run, stage
from unequal.race.results import write_collapse
from unequal.race.training import ArmSettings, recipe_at, train_arm, with_measured_slots
from unequal.runtime.files import read_json
from unequal.training.results import write_models


@stage(ArmSettings, shared=True)
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
    slots: str,
) -> None:
    """Train an arm."""
    run.input(after)
    known = read_json(run.input(slots))
    data = PreparedData.open(run.input("artifacts/data"))
    folder, figures = f"artifacts/race/models/{rung}/{name}", f"results/race/trainings/{rung}/{name}.json"
    try:
        recipe = recipe_at(with_measured_slots(settings.arm.of(settings.recipe), known), float(rate), float(share))
        outcome = train_arm(run, settings, recipe, data, f"race/{rung}/{name}", block)
    except Diverged as error:
        if run.leads:
            run.metrics(figures, write_collapse(run.output(folder), error))
        return
    if run.leads:
        write_models(run.output(folder), outcome)
        run.metrics(figures, costs_of(outcome))
