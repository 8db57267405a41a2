"""Summary of a run in a few lines: the model to take, and the next commands."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

#: First line of a summary; engines print what follows it in the report's log.
HEAD = "Summary of the run"


def commands(model: str, place: Path) -> list[str]:
    """List the next commands for a model, to run in the checkout that contains the run's folder."""
    enter = [] if place == Path() else [f"cd {shlex.quote(str(place))}"]
    target = f"my-{model.replace('_', '-')}"
    return [*enter, f"unequal sample {model} --count 64 --grid", f"unequal export {model} {target}"]


def summary(lead: str, following: Sequence[str], place: Path) -> Iterator[str]:
    """Yield the lines of the summary of a run in a folder below the checkout."""
    yield HEAD
    yield f"  {lead}"
    yield f"  next:   open {place / 'results/report.html'}"
    yield from (f"          {command}" for command in following)
