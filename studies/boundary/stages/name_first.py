"""Name the boundary that came first in the sweep, beside the joint model."""

from studies.boundary.first import first
from unequal.comparison.confirmation import CONTROL, FIRST
from unequal.comparison.results import read_found
from unequal.comparison.settings import Comparison, Endpoint, Pilot, shortened_plan
from unequal.pipeline.stage import Run, stage
from unequal.settings.groups import Plan, TwoGroups
from unequal.settings.strict import StageSettings, key


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    blocks: Comparison
    pilot: Pilot
    plans: dict[str, Plan]
    by: Endpoint = key("confirmation.by")


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write which arms are trained once more, and by which plans."""
    found = read_found(run.input("results/endpoints"), settings.blocks)
    boundaries = {name for name, plan in settings.plans.items() if isinstance(plan.groups, TwoGroups)}
    arms = {FIRST: first(found, boundaries, settings.by), CONTROL: settings.blocks.repeated.control}
    plans = {place: shortened_plan(settings.plans[arm], 1.0, settings.pilot.tried(arm)) for place, arm in arms.items()}
    told = {place: {"arm": arm, "plan": plans[place].model_dump(mode="json")} for place, arm in arms.items()}
    run.metrics("results/first.json", told)


if __name__ == "__main__":
    main()
