"""Remarks on the machine on which speeds are measured: the number of threads per stage, and other load."""

import hashlib
import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from unequal.settings.core import Core

#: Least share of the requested processor time that a program gets on an otherwise idle machine.
FREE = 0.9
#: Seconds of the measurement, and bytes that are hashed at once: enough that threads do not wait for Python.
SECONDS, HASHED = 1.0, 2**20


def busy(params: Core) -> Iterator[str]:
    """Yield a line on the slow-down of CPU measurements by other programs, if any, from a stage's share of the time."""
    import torch

    if torch.cuda.is_available() and params.runtime.device != "cpu":
        return
    if (share := share_of_time(params.runtime.threads)) < FREE:
        yield (
            f"Other programs run here: a stage gets {share:.0%} of the processor's time that it asks for. On a free "
            f"machine all of this takes about {share:.1g} of the time."
        )


def share_of_time(threads: int) -> float:
    """Share of the processor's time that this number of constantly computing threads gets."""

    def computed(_: int) -> float:
        start, own = time.perf_counter(), time.thread_time()
        while time.perf_counter() - start < SECONDS:
            hashlib.sha256(bytes(HASHED)).digest()
        return (time.thread_time() - own) / (time.perf_counter() - start)

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(computed, range(threads))) / threads


def recommended_threads(speeds: Mapping[str, float], params: Core) -> Iterator[str]:
    """Yield a recommendation for runtime.threads on a CPU.

    It goes by the speeds of training by precision, and with one thread per core if that was measured.
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
