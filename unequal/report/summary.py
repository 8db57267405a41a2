"""Summary of a run in a few lines: the recommended model, its FID and cost, and the next commands."""

import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from unequal.report.formatting import duration, plus_minus, with_prefix
from unequal.report.overview import Recommendation, control_of
from unequal.report.results import RunResults

#: First line of a summary; engines print what follows it in the report's log.
HEAD = "Summary of the run"
#: Programs that run stages.
ENGINES = ("dvc", "snakemake")


def commands(model: str, place: Path) -> list[str]:
    """List the next commands for a model, to run in the checkout that contains the run's folder."""
    enter = [] if place == Path() else [f"cd {shlex.quote(str(place))}"]
    target = f"my-{model.replace('_', '-')}"
    return [*enter, f"unequal sample {model} --count 64 --grid", f"unequal export {model} {target}"]


def summary(found: RunResults, best: Recommendation, wall: float | None, place: Path = Path()) -> Iterator[str]:
    """Yield the lines of the summary.

    Args:
        found, best: the results, and the model to take.
        wall: seconds since the engine was started; None: unknown.
        place: the run's folder below the checkout.
    """
    chosen, control = found.variants[best.model], found.variants[control_of(found)]
    real = found.references["real_against_real"]["fid"]
    training = sum(one.seconds for one in found.trainings.values())
    yield HEAD
    yield f"  {best.text}"
    fids = plus_minus(chosen.fid, chosen.fid_sd), plus_minus(control.fid, control.fid_sd), plus_minus(real, None)
    flops, seen = with_prefix(chosen.training_flops), with_prefix(chosen.images_seen)
    yield f"  {found.fid_name}: {fids[0]}; control ({control.name}) {fids[1]}; real images {fids[2]}"
    yield f"  cost:   {flops} FLOPs of training; {seen} images seen"
    took = "" if wall is None else f"; this command took {duration(wall)}"
    yield f"  time:   {duration(training)} of training{took}"
    yield f"  next:   open {place / 'results/report.html'}"
    yield from (f"          {command}" for command in commands(best.model, place))


def engine_seconds() -> float | None:
    """Seconds since the start of the engine that runs this stage; None where it runs on another machine."""
    for process in psutil.Process().parents():
        try:
            words = [word.rpartition("/")[2] for word in process.cmdline()[:3]]
        except psutil.Error:
            continue
        if any(engine in words for engine in ENGINES):
            return time.time() - process.create_time()
    return None
