"""What a timesteps.json suggests for a training: as a table, as Python, as flags of other trainers' scripts.

unequal suggest timesteps.json --as kohya
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import click

from unequal.diffusion.schedule import SCHEDULES, NoiseSchedule
from unequal.errors import UserError
from unequal.files import write_json
from unequal.profiler.document import Timesteps
from unequal.suggestions import code, flags, table
from unequal.suggestions.sections import Section, sections
from unequal.suggestions.suggestions import LOSSES, Asked, Halves, Kind, Measured, Suggestions

#: Relative difference of SNRs from which on two schedules are not the same; files of betas have about seven digits.
ANOTHER = 1e-3


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--as", "form", type=click.Choice(["table", "python", "diffusers", "kohya"]), default="table")
@click.option("--slots", type=click.IntRange(min=2), default=Asked.slots, show_default=True, help="slots of equal loss")
@click.option("--steps", type=click.IntRange(min=2), default=Asked.steps, show_default=True, help="of sampling")
@click.option(
    "--space", type=click.Choice(list(LOSSES)), default=Asked.space, show_default=True, help="of the slots' losses"
)
@click.option(
    "--density", type=click.Choice(get_args(Kind)), default=Asked.density, show_default=True, help="to come near to"
)
@click.option(
    "--halves", type=click.Choice(get_args(Halves)), default=Asked.halves, show_default=True, help="for two experts"
)
@click.option("--schedule", type=click.Choice(list(SCHEDULES)), help="that you train on: a file of another is refused")
@click.option("--shift", type=float, help="of the schedule flow, that you train on")
@click.option("--json", "facts", type=click.Path(path_type=Path), help="a file for all figures, the whole density too")
def suggest(
    file: Path,
    form: str,
    facts: Path | None,
    schedule: str | None,
    shift: float | None,
    **asked: Any,
) -> None:
    """What the losses in a timesteps.json suggest, with the measured reason and the caveat of each."""
    try:
        document = read(file)
        refuse_another(document.noise_schedule, schedule, shift, file)
        found = suggested(document, Asked(**asked), file)
        text = said(found, document, form, file)
        if facts:
            write_json(facts, figures(found, document))
    except UserError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{facts}: cannot be written: {error.strerror}") from None
    click.echo(text)


def read(file: Path) -> Timesteps:
    """A profile. Raises UserError in one line."""
    if not file.exists():
        raise UserError(f"{file}: no such file; `unequal profile` writes it")
    try:
        return Timesteps.read(file)
    except UserError as error:
        raise UserError(str(error) if str(error).startswith(str(file)) else f"{file}: {error}") from None
    except (RuntimeError, MemoryError):
        raise UserError(f"{file}: schedule: too many timesteps to be made") from None


def refuse_another(own: NoiseSchedule, name: str | None, shift: float | None, file: Path) -> None:
    """Raise UserError where a profile is of another schedule than is expected."""
    if shift is not None and name != "flow":
        raise UserError(f"--shift {shift:g}: only `--schedule flow` has a shift")
    if name is None:
        return
    expected = NoiseSchedule.named(name, own.timesteps, shift)
    difference = (own.snr / expected.snr).log().abs()
    t = int(difference.argmax())
    if float(difference[t]) > ANOTHER:
        raise UserError(
            f"{file}: of another schedule than '{name}' of {own.timesteps} timesteps: λ is "
            f"{own.snr[t].log():.3f} at t = {t}, not {expected.snr[t].log():.3f}"
        )


def suggested(document: Timesteps, asked: Asked, file: Path) -> Suggestions:
    """What a profile suggests. Raises UserError, with the file's name, where it does not give that much."""
    judged = document.judged
    measured = Measured(
        document.noise_schedule,
        document.prediction,
        document.everywhere(judged.mean),
        document.everywhere(judged.second_moment),
        len(document.timesteps),
    )
    try:
        return Suggestions.of(measured, asked)
    except UserError as error:
        raise UserError(f"{file}: {error}") from None


def said(found: Suggestions, document: Timesteps, form: str, file: Path) -> str:
    """Suggestions in the form that was asked for."""
    match form:
        case "python":
            return code.python(found, str(file)).rstrip()
        case "diffusers":
            return flags.text(found, "diffusers")
        case "kohya":
            return flags.text(found, "kohya")
    return table.page(head(document, file), sections(found))


def head(document: Timesteps, file: Path) -> str:
    """What was measured, in a sentence."""
    judged, split = document.judged, "held-out" if "held_out" in document.losses else "training"
    error = max(e / mean for e, mean in zip(judged.stderr, judged.mean, strict=True))
    return (
        f"{file}: {document.model} ({document.family}) predicts {document.prediction}; losses of {split} images at "
        f"{len(document.timesteps)} of {document.noise_schedule.timesteps} timesteps, {document.draws} draws at each, "
        f"standard errors up to {error:.1%}."
    )


def figures(found: Suggestions, document: Timesteps) -> dict[str, Any]:
    """All figures, reasons and caveats, as JSON can carry them."""
    density = found.density
    titles = ("slots", "density", "gamma", "boundary", "steps")
    why: dict[str, Section] = dict(zip(titles, sections(found), strict=True))
    numbers: dict[str, Any] = {
        "slots": {"ranges": [list(one) for one in found.slots]},
        "density": asdict(density)
        | {
            "probabilities": density.probabilities.tolist(),
            "nearest": [
                {"family": one.family, "arguments": dict(one.arguments), "distance": one.distance}
                for one in density.nearest
            ],
        },
        "gamma": asdict(found.gamma),
        "boundary": {"borders": [borders(one, found) for one in found.borders]},
        "steps": {"profile": found.steps, "uniform": found.uniform_steps},
    }
    told = {name: {**one, "reason": why[name].reason, "caveat": why[name].caveat} for name, one in numbers.items()}
    return {"model": document.model, "prediction": document.prediction, "asked": asdict(found.asked), **told}


def borders(one: Any, found: Suggestions) -> dict[str, Any]:
    """A border's figures, its times before and after the schedule's shift among them."""
    boundary = one.boundary
    times = {"time_before_shift": boundary.time(found.measured.shift), "time": boundary.time()}
    return {"name": one.name, "log_snr": boundary.log_snr, **times, "timestep": one.timestep} | {
        "share_of_timesteps": one.timesteps,
        "share_of_loss": one.loss,
    }


if __name__ == "__main__":
    suggest()
