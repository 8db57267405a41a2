"""Gate of the blocks of a study whose arms are plans: every arm has been given its try by the pilot.

The pilot itself does not wait for it. Recipes need no such gate: without a try, none can be trained.
"""

from unequal.comparison.settings import Arms, Pilot, choice
from unequal.errors import UserError
from unequal.files import write_json
from unequal.pipeline.stage import Run, stage
from unequal.settings.strict import StageSettings, key


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    arms: Arms = key("blocks.arms")
    pilot: Pilot


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Refuse arms that would be trained by what has not been tried."""
    pilot = settings.pilot
    if missing := [arm for arm in settings.arms if choice(pilot.chosen, arm) is None]:
        raise UserError(
            f"pilot.chosen: no try is named for {', '.join(missing)}; run the pilot, then name one of each: "
            f"{', '.join(pilot.tries)}"
        )
    # The same content at each pass: trainings wait for the gate, but do not go stale with it.
    write_json(run.output("artifacts/tries_chosen.json"), {"pilot.chosen": "every arm"})


if __name__ == "__main__":
    main()
