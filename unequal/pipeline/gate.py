"""Gate of a graph: check its params.yaml as a whole before anything runs."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from unequal.errors import UserError, UserErrors
from unequal.pipeline.sources import check_sources
from unequal.pipeline.stage import Run, StageCommand
from unequal.runtime.files import write_json
from unequal.settings.core import Core
from unequal.settings.strict import StageSettings, numbered

P = TypeVar("P", bound=Core)
Check = Callable[[Any], None]


class Gate(StageCommand):
    """The stage that refuses an unsound params.yaml."""

    def __init__(self, module: str, model: type[Core], *checks: Check) -> None:
        """
        Args:
            module: the program, `__name__` there, which ends with this definition: `python -m` runs it here.
            model: what a params file as a whole is read by.
            checks: raise UserError for settings of data and networks that a later stage would refuse.
        """
        self.model, self.checks = model, checks
        # No keys: the whole file is a dependency.
        super().__init__(self.refuse, StageSettings, module)
        self.run_if_main()

    def code_file(self, options: Mapping[str, str | int], check: bool) -> None:
        """Return None: what the gate makes is the same by any code, so that its graph declares no code file."""

    def refuse(self, run: Run, settings: StageSettings) -> None:
        """Refuse a params.yaml with unknown keys, wrong values, or impossible combinations or paths."""
        checked(run.input("params.yaml"), self.model, self.checks)
        # Equal content at each pass: later stages wait for the gate, but do not go stale with it.
        write_json(run.output("artifacts/params_checked.json"), {"params.yaml": "sound"})


def checked(path: Path, model: type[P], checks: Sequence[Check]) -> P:
    """Read a params file as a whole and check its settings, its paths, and its settings against what lies there.

    Raises:
        UserErrors: a line for each problem. Where a path leads nowhere, checks are left out.
        UserError: the file is missing, or no YAML.
    """
    params = model.read(path)
    further = refusals(partial(check_sources, path))
    further = further or [line for check in checks for line in refusals(partial(check, params))]
    if further:
        raise UserErrors(list(numbered(path, dict.fromkeys(further))))
    return params


def refusals(check: Callable[[], None]) -> list[str]:
    """The lines by which a check refuses."""
    try:
        check()
    except UserErrors as errors:
        return errors.lines
    except UserError as error:
        return [str(error)]
    return []
