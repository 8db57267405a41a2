"""Gate of a graph: check its params.yaml as a whole before anything runs."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from unequal.files import write_json
from unequal.pipeline.sources import check_sources
from unequal.pipeline.stage import Run, StageCommand
from unequal.settings.params.core import Core
from unequal.settings.strict import StageSettings

P = TypeVar("P", bound=Core)


class Settings(StageSettings):
    """No keys: the gate reads the whole file as a dependency."""


def gate(program: str, read: Callable[[Path], P], *checks: Callable[[P], None]) -> StageCommand:
    """Make the stage that refuses a params.yaml with unknown keys, wrong values, or impossible combinations or paths.

    Args:
        program: the file that is run, `__file__` there.
        read: checks a params file as a whole. Raises UserError where it is not sound.
        checks: raise UserError for settings of data and networks that a later stage would refuse.
    """

    def main(run: Run, settings: Settings) -> None:
        """Refuse a params.yaml with unknown keys, wrong values, or impossible combinations or paths."""
        params = read(run.input("params.yaml"))
        check_sources()
        for check in checks:
            check(params)
        # Equal content at each pass: later stages wait for the gate, but do not go stale with it.
        write_json(run.output("artifacts/params_checked.json"), {"params.yaml": "sound"})

    return StageCommand(main, Settings, program=Path(program))
