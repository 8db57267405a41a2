"""How long trainings take on a machine that does something else too: `python -m benchmarks.busy params.yaml`.

As many trainings as there are cores, one after the other with a thread for each core, and side by side with one thread
each; on an idle machine, and beside a program that keeps one core busy. All are timed by the clock on the wall.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click
import torch

from benchmarks.timing import in_turns, keep, ratio, seconds
from unequal.settings.strict import PARAMS

ONE_BY_ONE, SIDE_BY_SIDE = "one after the other, a thread a core", "side by side, one thread each"
IDLE, BUSY = "idle", "one core busy"
CORES = len(os.sched_getaffinity(0))


@contextmanager
def one_core_busy() -> Iterator[None]:
    """A program that does nothing but compute."""
    program = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        program.kill()
        program.wait()


def trainings(command: list[str], threads: int, at_once: int) -> None:
    """As many trainings as there are cores, some of them at once. Raises RuntimeError where one fails."""
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    for _ in range(CORES // at_once):
        running = [subprocess.Popen(command, env=environment) for _ in range(at_once)]
        statuses = [process.wait() for process in running]
        if any(statuses):
            raise RuntimeError("a training has failed")


def beside_a_program(command: list[str], threads: int, at_once: int) -> None:
    """The same while one core is busy."""
    with one_core_busy():
        trainings(command, threads, at_once)


def measure(params_file: Path, steps: int, rounds: int) -> dict[str, Any]:
    """Ratios of wall times: of each way beside a program to the same without, and of the two ways to each other."""
    command = [sys.executable, "-m", "benchmarks.growth", str(params_file), "--train", str(steps)]
    ways = {ONE_BY_ONE: (command, CORES, 1), SIDE_BY_SIDE: (command, 1, CORES)}
    works = {(way, IDLE): partial(trainings, *how) for way, how in ways.items()}
    works |= {(way, BUSY): partial(beside_a_program, *how) for way, how in ways.items()}
    named = {f"{way}; {state}": work for (way, state), work in works.items()}
    times = in_turns(named, rounds, torch.device("cpu"), warm_up=False, clock=seconds)
    return {
        "busy_over_idle": {way: ratio(times[f"{way}; {BUSY}"], times[f"{way}; {IDLE}"]) for way in ways},
        "side_by_side_over_one_by_one": {
            state: ratio(times[f"{SIDE_BY_SIDE}; {state}"], times[f"{ONE_BY_ONE}; {state}"]) for state in (IDLE, BUSY)
        },
        "seconds": times,
        "steps": steps,
        "cores": CORES,
    }


@click.command(help=__doc__)
@click.argument("params_file", type=click.Path(path_type=Path), default=PARAMS)
@click.option("--steps", default=150, show_default=True, help="of each training")
@click.option("--rounds", default=5, show_default=True)
@click.option("--name", help="keep the figures under this name in results/benchmarks")
def main(params_file: Path, steps: int, rounds: int, name: str | None) -> None:
    """Time them."""
    result = measure(params_file, steps, rounds)
    for what in ("busy_over_idle", "side_by_side_over_one_by_one"):
        for which, found in result[what].items():
            click.echo(f"{what}: {which}: {found['median']:.2f} ({found['low']:.2f} … {found['high']:.2f})")
    if name is not None:
        keep(name, result, torch.device("cpu"))


if __name__ == "__main__":
    main()
