"""Gate of a graph: check its params.yaml as a whole before anything runs."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from unequal.files import write_json
from unequal.pipeline.sources import check_sources
from unequal.pipeline.stage import Run, StageCommand
from unequal.settings.core import Core
from unequal.settings.strict import StageSettings

P = TypeVar("P", bound=Core)


class Settings(StageSettings):
    """No keys: the gate reads the whole file as a dependency."""


class Gate(StageCommand):
    """A gate as a program; `model` is what a params file as a whole is read by."""

    def __init__(self, function: Callable[..., None], program: Path, model: type[Core]) -> None:
        super().__init__(function, Settings, program=program)
        self.model = model

    def read(self, path: Path) -> Core:
        """Read and check a params file as a whole. Raises UserError."""
        return self.model.read(path)


def gate(program: str, model: type[P], *checks: Callable[[P], None]) -> Gate:
    """Make the stage that refuses a params.yaml with unknown keys, wrong values, or impossible combinations or paths.

    Args:
        program: the file that is run, `__file__` there.
        model: what a params file as a whole is read by.
        checks: raise UserError for settings of data and networks that a later stage would refuse.
    """

    def main(run: Run, settings: Settings) -> None:
        """Refuse a params.yaml with unknown keys, wrong values, or impossible combinations or paths."""
        params = model.read(run.input("params.yaml"))
        check_sources()
        for check in checks:
            check(params)
        # Equal content at each pass: later stages wait for the gate, but do not go stale with it.
        write_json(run.output("artifacts/params_checked.json"), {"params.yaml": "sound"})

    return Gate(main, Path(program), model)
