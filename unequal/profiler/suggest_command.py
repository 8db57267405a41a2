"""`unequal suggest`: what a timesteps.json suggests for a training.

unequal suggest timesteps.json --as kohya
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

FILE = click.Path(path_type=Path)
FORMS = ("table", "python", "diffusers", "kohya")
#: As they are known to the mathematics, which takes seconds to import, and help shall come at once.
SPACES = ("epsilon", "v", "x0", "velocity")
DENSITIES = ("least_variance", "slots")
HALVES = ("timesteps", "log_snr")
SCHEDULES = ("linear", "cosine", "scaled_linear", "flow")


F = TypeVar("F", bound=Callable[..., Any])


def choice(name: str, allowed: tuple[str, ...], what: str) -> Callable[[F], F]:
    """An option with a few values, the first of them taken unless it is told."""
    return click.option(name, type=click.Choice(allowed), default=allowed[0], show_default=True, help=what)


@click.command()
@click.argument("file", type=FILE)
@click.option("--as", "form", type=click.Choice(FORMS), default=FORMS[0], show_default=True, help="what is printed")
@click.option("--slots", default=10, show_default=True, type=click.IntRange(2), help="ranges of equal loss")
@click.option("--steps", default=20, show_default=True, type=click.IntRange(2), help="of sampling")
@choice("--space", SPACES, "whose squared error the slots share")
@choice("--density", DENSITIES, "that named densities are to be near to")
@choice("--halves", HALVES, "over what each of two experts gets half of the loss")
@click.option("--schedule", type=click.Choice(SCHEDULES), help="that you train on: a file of another one is refused")
@click.option("--shift", type=float, help="of the flow that you train on")
@click.option("--json", "facts", type=FILE, help="a file for all figures, the whole density among them")
def suggest(file: Path, form: str, facts: Path | None, schedule: str | None, shift: float | None, **asked: Any) -> None:
    """Say what the losses in FILE, a timesteps.json, suggest, with the measured reason and the caveat of each."""
    # Imported here, so that help comes at once.
    from unequal.profiler.suggesting import Profiled
    from unequal.suggestions.suggestions import Options

    profiled = Profiled.read(file)
    profiled.refuse_another(schedule, shift)
    found = profiled.suggested(Options(**asked))
    text = profiled.said(found, form)
    if facts:
        profiled.write(found, facts)
    click.echo(text)
