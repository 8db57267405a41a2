"""Gate of the blocks: every variant has a chosen try. The pilot, which informs the choice, does not wait for it."""

from unequal.comparison.settings import Arms, Pilot, choice
from unequal.errors import UserError
from unequal.pipeline.stage import Run, stage
from unequal.runtime.files import write_json
from unequal.settings.strict import StageSettings, key


class Settings(StageSettings):
    arms: Arms = key("comparison.arms")
    pilot: Pilot


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Refuse arms that would be trained by settings that have not been tried."""
    pilot = settings.pilot
    if missing := [arm for arm in settings.arms.all if choice(pilot.chosen, arm) is None]:
        raise UserError(
            f"pilot.chosen: no try is named for {', '.join(missing)}; run the pilot, then name one of each: "
            f"{', '.join(pilot.tries)}"
        )
    # The content never changes, so that trainings wait for the gate but do not go stale with it.
    write_json(run.output("artifacts/tries_chosen.json"), {"pilot.chosen": "every arm"})
