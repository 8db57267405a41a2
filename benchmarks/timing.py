"""Shared parts of the benchmarks: turns, clocks, and the machine behind the figures.

Contestants take turns, in an order that is turned round from round to round, and a ratio is the median over
rounds: what else the machine is doing slows neighbours equally. On a CPU they are compared by processor time, which
is wall time where one thread computes on a machine of its own, and says the same on one that is shared.
"""

import platform
import resource
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from operator import truediv
from pathlib import Path
from typing import Any

import torch

from unequal.runtime.files import read_json, write_json

#: Where the committed figures stand: a file for each kind of device.
RESULTS = Path("benchmarks")
Clock = Callable[[Callable[[], object], torch.device], float]


def seconds(work: Callable[[], object], device: torch.device) -> float:
    """Wall time of some work, with all that it has queued on a GPU."""
    start = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - start


def effort(work: Callable[[], object], device: torch.device) -> float:
    """Processor time of some work on a CPU, with that of the programs it has run; wall time on a GPU."""
    if device.type != "cpu":
        return seconds(work, device)
    start = processor_seconds()
    work()
    return processor_seconds() - start


def processor_seconds() -> float:
    """Processor time of this process and of the programs that it has waited for."""
    programs = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + programs.ru_utime + programs.ru_stime


def in_turns(
    contestants: Mapping[str, Callable[[], object]], rounds: int, device: torch.device
) -> dict[str, list[float]]:
    """Seconds of every contestant in every round; a round before the first one warms up."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(-1, rounds):
        for name in list(contestants)[:: 1 if number % 2 else -1]:
            taken = effort(contestants[name], device)
            times[name] += [taken] if number >= 0 else []
    return times


def ratio(over: Sequence[float], under: Sequence[float]) -> dict[str, float]:
    """Median over rounds of over/under, with the quartiles."""
    values = sorted(map(truediv, over, under))
    low, _, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return {"median": statistics.median(values), "low": low, "high": high}


def recorded(device: str, folder: Path = RESULTS) -> Path:
    """Return the file with the figures of a kind of device."""
    return folder / f"{device}.json"


def record(name: str, content: Mapping[str, Any], device: torch.device, folder: Path = RESULTS) -> Path:
    """Write a benchmark's figures with their conditions next to those of the others."""
    path = recorded(device.type, folder)
    figures = read_json(path) if path.exists() else {}
    conditions = {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
    write_json(path, figures | {name: dict(content) | conditions})
    return path
