"""Suggestions from a timesteps.json, as text, as Python that runs, and as figures."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from pprint import pformat
from textwrap import fill
from typing import Any

from unequal.errors import UserError
from unequal.profiler.document import Timesteps
from unequal.profiler.nearest_density import Nearest
from unequal.profiler.suggestion import MeasuredProfile, Options, Suggestion
from unequal.profiler.suggestions import Suggestions
from unequal.runtime.files import write_json

#: The command that measures what suggestions follow from.
WRITTEN_BY = "`unequal profile MODEL --train IMAGES --out FOLDER` writes FOLDER/timesteps.json"
WIDTH = 120


def read(file: Path) -> Timesteps:
    """Read a profile. Raises UserError in one line where it is missing or damaged, or of another form."""
    if not file.exists():
        raise UserError(f"{file}: no such file; {WRITTEN_BY}")
    if file.is_dir() or file.suffix != ".json":
        raise UserError(f"{file}: is no timesteps.json; {WRITTEN_BY}")
    try:
        return Timesteps.read(file)
    except UserError as error:
        raise UserError(str(error) if str(error).startswith(str(file)) else f"{file}: {error}") from None
    except (RuntimeError, MemoryError):
        raise UserError(f"{file}: schedule: too many timesteps to be made") from None


def suggested(document: Timesteps, asked: Options, file: Path) -> Suggestions:
    """Suggestions by a profile. Raises UserError, with the file's name, where it lacks what is asked for."""
    try:
        return Suggestions.of(MeasuredProfile.of(document), asked)
    except UserError as error:
        raise UserError(f"{file}: {error}") from None


def write_figures(suggestions: Suggestions, document: Timesteps, path: Path) -> None:
    """Write all figures, reasons and caveats. Raises UserError where that cannot be done."""
    whose = {"model": document.model, "prediction": document.prediction, "asked": asdict(suggestions.asked)}
    parts = {
        name: part.figures
        | {"reason": part.reason, "caveat": part.caveat, "withheld": bool(part.withheld)}
        | {"intervals": list(map(asdict, part.intervals.values()))}
        for name, part in suggestions.parts.items()
    }
    try:
        write_json(path, whose | parts)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from None


def table(suggestions: Suggestions, document: Timesteps, file: Path) -> str:
    """All suggestions for people, below a line on what was measured."""
    judged, split = document.judged, "held-out" if "held_out" in document.losses else "training"
    error = max(e / mean for e, mean in zip(judged.stderr, judged.mean, strict=True))
    head = (
        f"{file}: {document.model} ({document.family}) predicts {document.prediction}; losses of {split} images at "
        f"{len(document.timesteps)} of {document.noise_schedule.timesteps} timesteps, {document.draws} draws at each, "
        f"standard errors up to {error:.1%}. In brackets: 95 % intervals by these errors."
    )
    return "\n\n".join([fill(head, WIDTH), *map(paragraph, suggestions.parts.values())])


def paragraph(part: Suggestion[Any]) -> str:
    """One suggestion: its title, its rows in columns, its two sentences; the last alone where it is withheld."""
    title, rows, reason, caveat = part.title, part.rows, part.reason, part.caveat
    if part.withheld:
        title, rows = f"{title.partition(':')[0]}: withheld", []
        reason, caveat = f"{part.withheld}.", "More draws a timestep (--draws) narrow these intervals."
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    words = {"Why": reason, "But": caveat}
    indents: Mapping[str, Any] = {"initial_indent": "  ", "subsequent_indent": "       "}
    return "\n".join([title, *lines, *(fill(f"{word}: {text}", WIDTH, **indents) for word, text in words.items())])


HEAD = '''\
"""Suggestions as objects of a training loop."""

from functools import partial
from pathlib import Path

from unequal.diffusion.predictions import epsilon_error_factor
from unequal.diffusion.spacing import sampling_timesteps
from unequal.profiler.document import Timesteps
from unequal.timesteps.boundary import Boundary
from unequal.timesteps.densities import beta, logit_normal, masses, uniform_time
from unequal.timesteps.draws import Stratified, equal_over
from unequal.timesteps.learning import least_variance
from unequal.timesteps.partition import Partition
from unequal.timesteps.samplers import TimestepSampler, uniform
from unequal.timesteps.weights import loss_weights

measured = Timesteps.read(Path({path}))
schedule = measured.noise_schedule
'''
#: Suggestion → its statements.
STATEMENTS = {
    "slots": """\
# unbiased=True weights losses back, so that the objective stays that of uniform timesteps.
slots = Partition(
{slots}
)
stratified = TimestepSampler(equal_over(slots), True, draw=Stratified(slots))
""",
    "density": """\
factor = epsilon_error_factor({prediction}, schedule.snr).numpy()
moments = measured.everywhere(measured.judged.second_moment) / factor**2
table = TimestepSampler(least_variance(uniform(len(moments)), moments), True)

# What is named, with the share of draws that it puts elsewhere than {kind} does.
{named}
sampler = TimestepSampler({nearest}, True)
""",
    "gamma": """\
weights = loss_weights("min_snr", {prediction}, schedule.snr, gamma={gamma:.4g})
""",
    "boundary": """\
boundary = Boundary(log_snr={log_snr!r})
experts = boundary.ranges(schedule)
""",
    "steps": """\
steps = sampling_timesteps(
{steps},
    schedule.timesteps,
)
""",
}


def python(suggestions: Suggestions, file: Path) -> str:
    """A program that makes the objects; it reads the schedule and the moments from the file that was measured."""
    density = suggestions.density.value
    values = {
        "kind": density.kind,
        "slots": indented([tuple(slot) for slot in suggestions.slots.value]),
        "named": "\n".join(map(assignment, density.nearest)),
        "nearest": f"nearest_{density.best.family}",
        "prediction": json.dumps(suggestions.measured.prediction),
        "gamma": suggestions.gamma.value.gamma,
        "log_snr": suggestions.boundary.value.boundary.log_snr,
        "steps": indented(suggestions.steps.value),
    }
    parts = [
        f"# {name}: withheld: {part.withheld}\n" if part.withheld else STATEMENTS[name].format(**values)
        for name, part in suggestions.parts.items()
    ]
    return "\n".join([HEAD.format(path=json.dumps(str(file), ensure_ascii=False)), *parts]).rstrip()


def assignment(near: Nearest) -> str:
    """A line that makes a named density."""
    shift = near.arguments.get("shift", 1.0)
    keywords = "".join(f", {key}={value:.4g}" for key, value in near.arguments.items() if key != "shift")
    made = f"partial({near.family}{keywords})" if keywords else "uniform_time"
    return f'nearest_{near.family} = masses({made}, schedule, shift={shift:.4g}, ends="open")  # {near.distance:.1%}'


def indented(values: object) -> str:
    """A list as source, in lines of a page's width."""
    return "\n".join(f"    {line}" for line in pformat(values, width=112, compact=True).splitlines())
