"""Suggestions as Python that runs: arguments of this library's own objects."""

import json
from pprint import pformat

from unequal.profiler.intervals import too_open
from unequal.profiler.nearest_density import Nearest
from unequal.profiler.suggestions import Suggestions

HEAD = '''\
"""Suggestions as objects of a training loop."""

from functools import partial
from pathlib import Path

from unequal.diffusion.spacing import sampling_timesteps
from unequal.profiler.document import Timesteps
from unequal.timesteps.boundary import Boundary
from unequal.timesteps.densities import beta, logit_normal, masses, uniform_time
from unequal.timesteps.draws import Stratified, equal_over
from unequal.timesteps.learning import least_variance
from unequal.timesteps.partition import Partition
from unequal.timesteps.samplers import TimestepSampler, uniform
from unequal.diffusion.predictions import epsilon_error_factor
from unequal.timesteps.weights import loss_weights

measured = Timesteps.read(Path({path}))
schedule = measured.noise_schedule
'''
#: Section → its statements.
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


def python(found: Suggestions, path: str) -> str:
    """A program that makes the objects; it reads the schedule and the moments from the file that was measured.

    What the errors of the losses do not carry is a comment in the place of its statements.
    """
    values = {
        "kind": found.density.kind,
        "slots": indented([tuple(one) for one in found.slots]),
        "named": "\n".join(map(assignment, found.density.nearest)),
        "nearest": f"nearest_{found.nearest.family}",
        "prediction": quoted(found.measured.prediction),
        "gamma": found.gamma.gamma,
        "log_snr": found.border.boundary.log_snr,
        "steps": indented(found.steps),
    }
    parts = [
        f"# {part}: withheld: {why}\n" if (why := too_open(found.intervals, part)) else statements.format(**values)
        for part, statements in STATEMENTS.items()
    ]
    return "\n".join([HEAD.format(path=quoted(path)), *parts])


def assignment(one: Nearest) -> str:
    """A line that makes a named density."""
    shift = one.arguments.get("shift", 1.0)
    keywords = "".join(f", {key}={value:.4g}" for key, value in one.arguments.items() if key != "shift")
    made = f"partial({one.family}{keywords})" if keywords else "uniform_time"
    return f'nearest_{one.family} = masses({made}, schedule, shift={shift:.4g}, ends="open")  # {one.distance:.1%}'


def quoted(text: str) -> str:
    """A text as source, in double quotes."""
    return json.dumps(text, ensure_ascii=False)


def indented(values: object) -> str:
    """A list as source, in lines of a page's width."""
    return "\n".join(f"    {line}" for line in pformat(values, width=112, compact=True).splitlines())
