"""Remarks on the machine that speeds are measured on: how many threads a stage should have, and other work."""

import os
from collections.abc import Iterator, Mapping

from unequal.settings.core import Core


def busy() -> Iterator[str]:
    """A warning where processes wait for the cores on which speeds are measured."""
    load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    if load > cores:
        yield f"This machine is busy (load {load:.1f} on {cores} cores): on a free one all of this takes less time."


def recommended_threads(speeds: Mapping[str, float], params: Core) -> Iterator[str]:
    """A recommendation for runtime.threads on a CPU.

    Args:
        speeds: of training, by its precision, and with a thread for each core where that was measured.
        params: the settings.
    """
    precision, chosen, cores = params.training.precision, params.runtime.threads, len(os.sched_getaffinity(0))
    if (many := speeds.get(f"{precision}, {cores} threads")) is None:
        return
    ratio = many / speeds[precision]
    if ratio >= cores / chosen:
        advice = f"set runtime.threads: {cores}"
    elif ratio > 1:
        advice = f"{chosen} for a whole run, with --cores {cores}; {cores} for a single training"
    else:
        advice = str(chosen)
    yield f"Threads: {cores} train one model {ratio:.2f} times as fast as {chosen}; best: {advice}."
