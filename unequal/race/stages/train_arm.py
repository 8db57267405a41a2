"""Train an arm at a rate from the weights and draws of a block, for a share of the images; a collapse is an outcome."""

from unequal.comparison.training import costs_of
from unequal.data.prepared import PreparedData
from unequal.errors import Diverged
from unequal.files import write_json
from unequal.pipeline.stage import Run, stage
from unequal.race.results import COLLAPSED
from unequal.race.training import ArmSettings, train_arm
from unequal.training.results import write_models


@stage(ArmSettings, shared=True)
def main(
    run: Run, settings: ArmSettings, rung: str, arm: str, rate: str, block: int, share: str, name: str, after: str
) -> None:
    """Train an arm."""
    run.input(after)
    data = PreparedData.open(run.input("artifacts/data"))
    folder = f"artifacts/race/models/{rung}/{name}"
    outcome = None
    try:
        outcome = train_arm(run, settings, data, f"race/{rung}/{name}", float(rate), block, float(share))
    except Diverged as error:
        reason = str(error).partition(";")[0]
    if not run.leads:
        return
    if outcome is None:
        write_json(run.output(folder) / COLLAPSED, {"reason": reason})
        run.metrics(f"results/race/trainings/{rung}/{name}.json", {"collapsed": reason})
        return
    write_models(run.output(folder), outcome)
    run.metrics(f"results/race/trainings/{rung}/{name}.json", costs_of(outcome))


if __name__ == "__main__":
    main()
