"""Waits of a training step for data that is not in memory, and the preparation of as many images as ImageNet has.

Images are written into a temporary folder and dropped from the system's cache; then a training reads the mapped file.
All are shuffled together and each batch is gathered when it is asked for; or they are shuffled in windows; or in
windows with the next batch gathered ahead, as large sets are. The gathering alone is timed, too.

The preparation is a process of its own, `python -m benchmarks.data`, whose memory is watched: of its pages those that
belong to no file, which alone a machine cannot take back.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from benchmarks.steps import watched
from benchmarks.timing import processor_seconds, seconds
from benchmarks.training import advance, our_loop
from unequal.data.preparation import prepare
from unequal.data.prepared import IMAGES, tensor_of
from unequal.settings.data import Data
from unequal.settings.params import Params
from unequal.timesteps.samplers import TimestepSampler, uniform
from unequal.training.batches import WINDOW_BYTES, BatchSource

IMAGES_AT_ONCE = 1000
#: (shuffled in windows, gathered ahead) of every way to read.
WAYS = {"whole": (False, False), "windows": (True, False), "windows_ahead": (True, True)}


def generate(path: Path, images: int, size: int) -> None:
    """Write uint8 images [N, 3, size, size] of no meaning."""
    mapped = np.lib.format.open_memmap(path, "w+", np.uint8, (images, 3, size, size))
    generator = np.random.default_rng(0)
    for start in range(0, images, IMAGES_AT_ONCE):
        part = mapped[start : start + IMAGES_AT_ONCE]
        part[:] = generator.integers(0, 256, part.shape, dtype=np.uint8)
    mapped.flush()


def forget(path: Path) -> None:
    """Drop a file from the system's cache."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def source_of(path: Path, way: str, params: Params, device: torch.device) -> BatchSource:
    """The mapped file, read in one of the ways."""
    images = tensor_of(np.load(path, mmap_mode="r"))
    windows, ahead = WAYS[way]
    window = WINDOW_BYTES // images[0].nbytes if windows else None
    sampler = TimestepSampler(uniform(params.schedule.timesteps))
    return BatchSource(images, params.training.batch_size, sampler, 0, True, device, window, ahead)


def waiting(path: Path, way: str, params: Params, device: torch.device, steps: int) -> dict[str, float]:
    """Seconds a step, and those of them that pass until its batch is there."""
    source = source_of(path, way, params, device)
    with tempfile.TemporaryDirectory() as work:
        trainer = our_loop(params, device, Path(work), source)
        advance(trainer, 2)
        forget(path)
        with watched(BatchSource, "draw", torch.device("cpu"), clock=seconds) as waited:
            whole = seconds(lambda: advance(trainer, steps), device)
    return {"step": whole / steps, "wait": sum(waited) / steps, "share": sum(waited) / whole}


def gathering(path: Path, way: str, params: Params, batches: int) -> float:
    """Images a second that come from a cold file where nothing else is done."""
    source = source_of(path, way, params, torch.device("cpu"))
    forget(path)

    def gather() -> None:
        for step in range(batches):
            source.gathered(step, slice(None))

    return params.training.batch_size * batches / seconds(gather, source.device)


def measure(
    params: Params, device: torch.device, images: int, size: int, steps: int, batches: int, rounds: int
) -> dict[str, Any]:
    """All ways, in turns; medians over rounds."""
    data = params.data.model_copy(update={"image_size": size, "channels": 3})
    params = params.model_copy(update={"data": data})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "images.npy"
        generate(path, images, size)
        steps_of = {way: partial(waiting, path, way, params, device, steps) for way in WAYS}
        found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
        speeds: dict[str, list[float]] = {way: [] for way in ("whole", "windows")}
        for _ in range(rounds):
            for way, one in steps_of.items():
                found[way].append(one())
            for way, speed in speeds.items():
                speed.append(gathering(path, way, params, batches))
    return {
        "seconds": {way: {name: median(one[name] for one in of) for name in of[0]} for way, of in found.items()},
        "gathered_per_second": {way: median(speed) for way, speed in speeds.items()},
        "images": images,
        "image": [3, size, size],
        "batch_size": params.training.batch_size,
        "steps": steps,
        "rounds": rounds,
        "every_round": {"seconds": found, "gathered_per_second": speeds},
    }


def prepared(source: Path, target: Path, size: int) -> dict[str, float]:
    """Prepare an array in a process; its processor seconds, and the most memory that belongs to no file, in bytes."""
    command = [sys.executable, "-m", "benchmarks.data", str(source), str(target), str(size)]
    largest, start = 0, processor_seconds()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            largest = max(largest, anonymous_bytes(process.pid))
            time.sleep(0.5)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} has failed")
    return {"seconds": processor_seconds() - start, "bytes": largest}


def anonymous_bytes(pid: int) -> int:
    """Memory of a process that belongs to no file; 0 where it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"RssAnon:\s+(\d+) kB", status)
    return 1024 * int(found[1]) if found else 0


def measure_full(params: Params, device: torch.device, images: int, size: int, steps: int) -> dict[str, Any]:
    """Preparation of so many images, and the waits of a training that reads them from disk in windows."""
    data = params.data.model_copy(update={"image_size": size, "channels": 3})
    params = params.model_copy(update={"data": data})
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "source.npy", Path(folder) / "prepared"
        generate(source, images, size)
        forget(source)
        few = Path(folder) / "few.npy"
        generate(few, 100, size)
        start = prepared(few, Path(folder) / "few", size)
        whole = prepared(source, target, size)
        waits = {way: waiting(target / IMAGES, way, params, device, steps) for way in WAYS}
        stored = (target / IMAGES).stat().st_size
    return {
        "prepared": whole,
        "prepared_few": start,
        "stored_bytes": stored,
        "seconds": waits,
        "images": images,
        "image": [3, size, size],
        "batch_size": params.training.batch_size,
        "steps": steps,
    }


if __name__ == "__main__":
    read, written, pixels = sys.argv[1:]
    form: dict[str, Any] = {"image_size": int(pixels), "channels": 3, "fit": "exact", "convert": False}
    prepare(Data(source="array", path=read, holdout=0.05, **form), 0, Path(written))
