"""How long the first run takes, and of what: `python -m benchmarks.first_run FOLDER`.

The last commit is cloned into a new folder, set up and run there by uv, as README's first command does it. The time is
shared out between the set-up, the engine, the start of the stages' processes (Python and imports), what the stages do,
and the rest of their processes (publishing and tracking). Where several stages are at work, each has an equal part of
the time; the engine has what is left, in which there is none.
"""

import json
import os
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import torch

from benchmarks.overhead import ROOT
from benchmarks.timing import keep

#: README's first one.
COMMAND = ("snakemake", "--cores", "all")
#: The parts of a stage's process, and the moments between them.
PARTS = ("stages' starts", "stages' work", "stages' ends")
MOMENTS = ("begun", "started", "ended", "gone")
#: Read by every Python that finds its folder on its path: notes when a stage's process, and its own function, begin
#: and end.
HOOK = """
import atexit, json, os, sys, time

times = {"begun": time.time()}
if any(word.startswith("stages.") for word in sys.orig_argv):
    from unequal.pipeline import stage

    construct = stage.StageCommand.__init__

    def constructed(command, function, *arguments, **named):
        construct(command, function, *arguments, **named)

        def timed(*arguments, **options):
            times["started"] = time.time()
            try:
                return function(*arguments, **options)
            finally:
                times["ended"] = time.time()

        command.function = timed

    stage.StageCommand.__init__ = constructed

    @atexit.register
    def note():
        with open(os.environ["NOTES"], "a") as file:
            file.write(json.dumps(times | {"gone": time.time()}) + "\\n")
"""


def run(folder: Path, environment: Mapping[str, str], *command: str) -> float:
    """Seconds of a command. Raises CalledProcessError."""
    begun = time.perf_counter()
    subprocess.run(command, cwd=folder, env=os.environ | dict(environment), check=True)
    return time.perf_counter() - begun


def measure(folder: Path) -> dict[str, Any]:
    """Seconds of each part of the first run in a new folder."""
    subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True)
    own = {"PYTHONPATH": ""}  # which could lead to another copy of the code
    set_up = run(folder, own, "uv", "sync", "--quiet")
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "sitecustomize.py").write_text(HOOK)
        notes = Path(place) / "notes"
        noting = {"NOTES": str(notes), "PYTHONPATH": place}
        whole = run(folder, own | noting, "uv", "run", *COMMAND)
        processes = [json.loads(line) for line in notes.read_text().splitlines()]
    return {"seconds": shared_out(set_up, whole, processes), "stages": len(processes), "cores": os.cpu_count()}


def shared_out(set_up: float, whole: float, processes: list[dict[str, float]]) -> dict[str, float]:
    """The parts of a run, given the moments of each stage's process."""
    spans = [
        (part, one[begin], one[end])
        for one in processes
        for part, (begin, end) in zip(PARTS, pairwise(MOMENTS), strict=True)
    ]
    parts = Counter(dict.fromkeys(PARTS, 0.0))
    for begin, end in pairwise(sorted({moment for _, *span in spans for moment in span})):
        at_work = [part for part, first, last in spans if first <= begin and end <= last]
        for part in at_work:
            parts[part] += (end - begin) / len(at_work)
    return {"set-up": set_up, "engine": whole - parts.total(), **parts, "all": set_up + whole}


@click.command(help=__doc__)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--name", help="keep the figures under this name in results/benchmarks")
def main(folder: Path, name: str | None) -> None:
    """Time the first run."""
    result = measure(folder)
    for what, taken in result["seconds"].items():
        click.echo(f"{what:16} {taken:7.1f} s  {taken / result['seconds']['all']:6.1%}")
    if name is not None:
        keep(name, result, torch.device("cpu"))


if __name__ == "__main__":
    main()
